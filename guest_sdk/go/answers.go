package rho

import (
	"errors"
	"reflect"
	"runtime"
	"strconv"
	"strings"
)

// Failed is the error of a tool that could not do what it was asked for: say what the model should do. It is no crash.
// Any other error is answered so too, with its text.
func Failed(reason string) error { return &failure{reason: reason} }

// FailedWith fails with a reason that need not be text.
func FailedWith(reason any) error { return &failure{reason: reason} }

// AskUser stops the call and asks a person. The answer becomes the call's result: the tool is not called again.
// options may be nil; else it is a map with text keys, or a struct.
func AskUser(question string, options any) error {
	return &asking{question: question, options: options}
}

// Halt ends the model's loop, with reason for the caller and value as the outcome.
func Halt(reason string, value any) error { return &halting{reason: reason, value: value} }

type failure struct{ reason any }

func (f *failure) Error() string {
	if text, ok := f.reason.(string); ok {
		return text
	}
	return "the tool failed"
}

type asking struct {
	question string
	options  any
}

func (a *asking) Error() string { return "rho.AskUser: " + a.question }

type halting struct {
	reason string
	value  any
}

func (h *halting) Error() string { return "rho.Halt: " + h.reason }

// Raised says that the tool itself is at fault, which counts as a crash. A panic becomes one by itself, with the lines
// of the tool that led to it; a tool may also return one, or panic with it.
type Raised struct {
	Message string
	Type    string
	Trace   []string
}

func (r *Raised) Error() string { return r.Message }

func (r *Raised) answer() map[string]any {
	raised := map[string]any{"message": toUTF8(r.Message)}
	if r.Type != "" {
		raised["type"] = toUTF8(r.Type)
	}
	if len(r.Trace) > 0 {
		raised["trace"] = r.Trace
	}
	return map[string]any{"raised": raised}
}

// answerOf is the answer of a handler that returned.
func answerOf(ctx *Context, result reflect.Value, err error) map[string]any {
	if err == nil {
		answer := map[string]any{"ok": result}
		if len(ctx.images) > 0 {
			answer["images"] = ctx.images
		}
		return ctx.withDetails(answer)
	}
	if failed, ok := err.(*failure); ok {
		return ctx.withDetails(map[string]any{"error": failed.reason})
	}
	var asked *asking
	var halted *halting
	var raised *Raised
	switch {
	case errors.As(err, &raised):
		return raised.answer()
	case errors.As(err, &asked):
		answer := map[string]any{"ask_user": asked.question}
		if asked.options != nil {
			answer["options"] = asked.options
		}
		return answer
	case errors.As(err, &halted):
		return map[string]any{"halt": halted.reason, "value": halted.value}
	default:
		return ctx.withDetails(map[string]any{"error": toUTF8(err.Error())})
	}
}

// panicked is what a recovered panic is answered with. It must be called by the deferred function itself.
func panicked(value any, module string) *Raised {
	trace := ownLines(module)
	switch value := value.(type) {
	case *Raised:
		return value
	case runtime.Error:
		return &Raised{Message: value.Error(), Type: "runtime.Error", Trace: trace}
	case error:
		return &Raised{Message: value.Error(), Type: reflect.TypeOf(value).String(), Trace: trace}
	case string:
		return &Raised{Message: value, Type: "panic", Trace: trace}
	case interface{ String() string }:
		return &Raised{Message: value.String(), Type: "panic", Trace: trace}
	default:
		return &Raised{Message: "a " + reflect.TypeOf(value).String(), Type: "panic", Trace: trace}
	}
}

const traceLines = 20

// ownLines are the places in the guest's own module that are running, the innermost first.
func ownLines(module string) []string {
	var counters [256]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(2, counters[:])])
	var lines []string
	for more := true; more && len(lines) < traceLines; {
		var frame runtime.Frame
		frame, more = frames.Next()
		file, own := strings.CutPrefix(frame.File, module+"/")
		if !own || file == startFile {
			continue
		}
		name := frame.Function[strings.LastIndexByte(frame.Function, '/')+1:]
		lines = append(lines, file+":"+strconv.Itoa(frame.Line)+", in "+strings.TrimPrefix(name, "main."))
	}
	return lines
}

// startFile is what the build adds to the guest; its lines are not the author's.
const startFile = "rho_start.go"

func toUTF8(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
