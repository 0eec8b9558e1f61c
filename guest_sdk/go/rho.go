// Package rho makes tools for rho_wasm: functions that a model calls, each in a sandbox of its own.
//
//	package main
//
//	import "rho"
//
//	type Arguments struct {
//		Name string `rho:"name" desc:"whom to greet"`
//	}
//
//	func greet(ctx *rho.Context, arguments Arguments) (string, error) {
//		if arguments.Name == "" {
//			return "", rho.Failed("the name is empty: whom shall I greet?")
//		}
//		return "hello " + arguments.Name, nil
//	}
//
//	func main() {
//		rho.Tool("greet", "Greets somebody.", greet)
//	}
//
// main declares the tools. It runs once, when the guest is built; what it leaves in memory is where every call begins,
// and a call keeps nothing for the next. An error is a failure that the model reads; a panic is a crash of the tool.
// README.md beside this has the tags of fields, and the types that arguments and answers may have.
package rho

import "reflect"

type tool struct {
	name, description string
	input, output     *form
	handle            func(ctx *Context, arguments *reader) (reflect.Value, error)
	hints             map[string]any
	examples          []any
}

// What main declared. A guest has one list of tools, as its module has one set of exports.
var (
	tools        []*tool
	capabilities []string
)

// An Option says more about a tool: [ReadOnly], [Destructive], [Idempotent], [TimeoutMS], [Metadata], [Example],
// [FailingExample] and [AskingExample].
type Option func(*tool)

// Tool declares a tool. A, a struct or a map with text keys, is what it takes; R is what it answers. Both become the
// schemas that a model is shown and the host checks.
//
// It panics for types that no schema can be made of, and for a name that is there already.
func Tool[A, R any](name, description string, handler func(*Context, A) (R, error), options ...Option) {
	made := &tool{
		name:        name,
		description: description,
		input:       formOf(reflect.TypeFor[A](), name+": arguments"),
		output:      formOf(reflect.TypeFor[R](), name+": answer"),
		hints:       map[string]any{},
	}
	if made.input.kind != kindStruct && made.input.kind != kindMap {
		panic("rho: " + name + ": arguments are a struct or a map with text keys")
	}
	made.handle = func(ctx *Context, encoded *reader) (reflect.Value, error) {
		var arguments A
		if err := encoded.into(reflect.ValueOf(&arguments).Elem(), made.input, "arguments"); err != nil {
			return reflect.Value{}, err
		}
		result, err := handler(ctx, arguments)
		return reflect.ValueOf(&result).Elem(), err
	}
	for _, option := range options {
		option(made)
	}
	if find(name) != nil {
		panic("rho: there are two tools of the name " + name)
	}
	tools = append(tools, made)
}

// Capabilities declares what the guest may ask its host for with [HostCall]. What is not declared is refused.
func Capabilities(names ...string) { capabilities = append(capabilities, names...) }

// ReadOnly says that a tool changes nothing anywhere.
func ReadOnly(of *tool) { of.hints["read_only"] = true }

// Destructive says that a tool may overwrite or delete something.
func Destructive(of *tool) { of.hints["destructive"] = true }

// Idempotent says that a second call with the same arguments changes nothing more.
func Idempotent(of *tool) { of.hints["idempotent"] = true }

// TimeoutMS bounds a call by the clock, in milliseconds. The host's own bound holds where it is lower.
func TimeoutMS(milliseconds uint) Option {
	return func(of *tool) { of.hints["timeout_ms"] = milliseconds }
}

// Metadata goes to the host as it is, never to a model.
func Metadata(metadata map[string]any) Option {
	return func(of *tool) { of.hints["metadata"] = metadata }
}

// Example shows a call and its answer. The host makes the call, and takes the tool only if it answers so.
func Example(arguments, answer any) Option { return example(arguments, "ok", answer, nil) }

// FailingExample shows a call and the reason that it fails with.
func FailingExample(arguments any, reason string) Option { return example(arguments, "error", reason, nil) }

// Asked is one call of the host in an example: what the tool asks for, and what it is given.
type Asked struct {
	Capability string
	Arguments  any
	Answer     any
}

// AskingExample shows a call that asks the host, which is answered as asked says, each once.
func AskingExample(arguments, answer any, asked ...Asked) Option { return example(arguments, "ok", answer, asked) }

func example(arguments any, shape string, answer any, asked []Asked) Option {
	made := map[string]any{"arguments": arguments, "answer": map[string]any{shape: answer}}
	if len(asked) > 0 {
		host := make([]any, 0, len(asked))
		for _, each := range asked {
			request := map[string]any{"capability": each.Capability, "arguments": each.Arguments}
			host = append(host, []any{request, map[string]any{"ok": each.Answer}})
		}
		made["host"] = host
	}
	return func(of *tool) { of.examples = append(of.examples, made) }
}

func find(name string) *tool {
	for _, each := range tools {
		if each.name == name {
			return each
		}
	}
	return nil
}

// manifest is what the host reads of the guest without running it, as ABI.md has it.
func manifest() map[string]any {
	declared := make([]any, 0, len(tools))
	for _, each := range tools {
		of := map[string]any{
			"name":         each.name,
			"description":  each.description,
			"input_schema": each.input.schema(),
		}
		if schema := each.output.schema(); len(schema) > 0 {
			of["output_schema"] = schema
		}
		if len(each.examples) > 0 {
			of["examples"] = each.examples
		}
		for name, hint := range each.hints {
			of[name] = hint
		}
		declared = append(declared, of)
	}
	made := map[string]any{"abi": 1, "language": "go", "tools": declared}
	if len(capabilities) > 0 {
		made["capabilities"] = capabilities
	}
	return made
}
