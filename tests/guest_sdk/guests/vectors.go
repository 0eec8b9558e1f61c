// The tools that the guests of all SDKs share, so that one test drives them all.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"rho"
)

type valueArguments struct {
	Value any `rho:"value"`
}

func echo(_ *rho.Context, arguments valueArguments) (any, error) { return arguments.Value, nil }

type shapeArguments struct {
	Shape string `rho:"shape"`
}

func answer(ctx *rho.Context, arguments shapeArguments) (any, error) {
	switch arguments.Shape {
	case "ok":
		return 42, nil
	case "ok_images":
		ctx.AddImage("image/png", []byte("\x89PNG\r\n\x1a\n"))
		return 42, nil
	case "ok_details":
		ctx.SetDetails(map[string]int{"n": 1})
		return 42, nil
	case "failed":
		return nil, rho.Failed("no such user")
	case "failed_details":
		ctx.SetDetails(map[string]int{"n": 1})
		return nil, rho.Failed("no such user")
	case "raised":
		return nil, &rho.Raised{Message: "broken", Type: "Broken", Trace: []string{"line 1"}}
	case "ask":
		return nil, rho.AskUser("which one?", nil)
	case "ask_options":
		return nil, rho.AskUser("which one?", map[string]int{"a": 1})
	case "halt":
		return nil, rho.Halt("done", 7)
	}
	return nil, rho.Failed("no such shape")
}

type hostArguments struct {
	Capability string
	Arguments  map[string]any
}

func askHost(_ *rho.Context, arguments hostArguments) (map[string]any, error) {
	reply, err := rho.HostCall[any](arguments.Capability, arguments.Arguments)
	if refused, ok := err.(*rho.HostError); ok {
		return map[string]any{"error": refused}, nil
	}
	return map[string]any{"ok": reply}, err
}

type logArguments struct {
	Level int
	Text  string
}

func write(_ *rho.Context, arguments logArguments) (any, error) {
	rho.Log(arguments.Level, arguments.Text)
	return nil, nil
}

type wordArguments struct {
	Text string
	Top  int `default:"5" min:"0" max:"100"`
}

type word struct {
	Word  string
	Count int
}

type wordCounts struct {
	Words      int
	Lines      int
	Characters int
	Distinct   int
	Top        []word
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

func lower(text string) string {
	made := []byte(text)
	for at, c := range made {
		if c >= 'A' && c <= 'Z' {
			made[at] = c + 'a' - 'A'
		}
	}
	return string(made)
}

func wordCount(_ *rho.Context, arguments wordArguments) (wordCounts, error) {
	if arguments.Top < 0 || arguments.Top > 100 {
		return wordCounts{}, rho.Failed("top is out of range: give 0 to 100")
	}
	text := lower(arguments.Text)
	made := wordCounts{Lines: strings.Count(text, "\n"), Top: []word{}}
	if text != "" && !strings.HasSuffix(text, "\n") {
		made.Lines++
	}
	places := map[string]int{}
	var all []word
	for at := 0; at < len(text); {
		begin := at
		for at < len(text) && (isLetter(text[at]) || at > begin && text[at] == '\'') {
			at++
		}
		if at == begin {
			at++
			continue
		}
		made.Words++
		place, known := places[text[begin:at]]
		if !known {
			place = len(all)
			places[text[begin:at]] = place
			all = append(all, word{Word: text[begin:at]})
		}
		all[place].Count++
	}
	for at := range len(text) {
		if text[at]&0xc0 != 0x80 {
			made.Characters++
		}
	}
	made.Distinct = len(all)
	for len(made.Top) < arguments.Top && len(made.Top) < len(all) {
		best := &all[0]
		for at := range all {
			if all[at].Count > best.Count {
				best = &all[at]
			}
		}
		made.Top = append(made.Top, *best)
		best.Count = 0
	}
	return made, nil
}

type textArguments struct {
	Text string
}

func sha(_ *rho.Context, arguments textArguments) (string, error) {
	sum := sha256.Sum256([]byte(arguments.Text))
	return hex.EncodeToString(sum[:]), nil
}

func main() {
	rho.Capabilities("clock.now", "kv.get")
	rho.Tool("echo", "Answers what it is given.", echo)
	rho.Tool("answer", "Answers in a shape.", answer)
	key, found := map[string]any{"key": "a"}, map[string]any{"value": 1}
	rho.Tool("ask_host", "Asks the host for a capability.", askHost,
		rho.AskingExample(hostArguments{"kv.get", key}, map[string]any{"ok": found}, rho.Asked{"kv.get", key, found}))
	rho.Tool("log", "Writes to the log.", write)
	rho.Tool("word_count", "Counts the words of a text.", wordCount, rho.ReadOnly)
	rho.Tool("sha256", "The SHA-256 of a text.", sha, rho.ReadOnly)
}
