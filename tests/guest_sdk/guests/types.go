// What types and answers become, and what a mistake of the author does.
package main

import (
	"errors"
	"fmt"

	"rho"
)

type point struct {
	X, Y float64
}

type arguments struct {
	Flag    bool              `rho:"flag,optional"`
	Small   uint8             `rho:"small,optional" desc:"a byte"`
	Signed  int16             `rho:",optional" min:"-5" max:"5"`
	Large   uint64            `rho:",optional"`
	Real    float32           `rho:",optional"`
	Text    string            `rho:",optional" pattern:"^a" min:"1"`
	Color   string            `enum:"red|green" default:"red"`
	Data    []byte            `rho:",optional"`
	Points  []point           `rho:",optional" max:"3"`
	Names   map[string]string `rho:",optional"`
	Maybe   *int
	UserIDs []int `rho:",optional"`
	Any     any   `rho:",optional"`
	Hidden  int   `rho:"-"`
	private int
}

func types(_ *rho.Context, given arguments) (arguments, error) {
	given.private, given.Hidden = 1, 1
	return given, nil
}

type mistakeArguments struct {
	Which string
}

type broken struct{ code int }

func (b broken) Error() string { return fmt.Sprint("broken ", b.code) }

func deep(levels int) any {
	if levels == 0 {
		return nil
	}
	return []any{deep(levels - 1)}
}

func mistakes(ctx *rho.Context, given mistakeArguments) (any, error) {
	switch given.Which {
	case "index":
		var none []int
		return none[len(given.Which)], nil
	case "nil map":
		var none map[string]int
		none["a"] = 1
	case "text":
		panic("a text")
	case "error":
		panic(broken{3})
	case "wrapped":
		return nil, fmt.Errorf("reading: %w", rho.Failed("no such file"))
	case "joined":
		return nil, errors.Join(errors.New("one"), errors.New("two"))
	case "plain":
		return nil, broken{4}
	case "wrapped question":
		return nil, fmt.Errorf("while asking: %w", rho.AskUser("which?", nil))
	case "bad text":
		return "\xff", nil
	case "bad error":
		return nil, errors.New("\xff")
	case "function":
		return func() {}, nil
	case "deep enough":
		return deep(63), nil
	case "too deep":
		return deep(64), nil
	case "itself":
		var inside []any = []any{nil}
		inside[0] = inside
		return inside, nil
	case "exit":
		go panic("in a goroutine")
		select {}
	}
	return ctx, nil
}

func about(ctx *rho.Context, _ struct{}) (map[string]any, error) {
	ctx.Progress(1, 4, "pages")
	ctx.Progress(0.5, 0, "")
	ctx.Warning("careful \xff")
	return map[string]any{"call": ctx.CallID, "session": ctx.SessionID, "values": ctx.Values}, nil
}

func main() {
	rho.Tool("types", "Gives back what it is given.", types, rho.Idempotent, rho.TimeoutMS(1000))
	rho.Tool("mistakes", "Makes one.", mistakes, rho.Destructive, rho.Metadata(map[string]any{"a": 1}))
	rho.Tool("about", "What the call is.", about)
}
