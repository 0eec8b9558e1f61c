package rho

// module is the path of the guest's own module: where a panic went through, its lines are told.
var module string

// undeclared is why main did not come to its end.
var undeclared *Raised

// Start declares the tools: the build adds a file to the guest that calls it with the guest's main. No tool calls it.
func Start(path string, main func()) {
	module = path
	defer func() {
		if value := recover(); value != nil {
			undeclared = panicked(value, module)
		}
	}()
	main()
}

// declaration is the manifest's bytes. Where main failed, or declared no tool, there are none: standard error says why,
// for the build to read.
func declaration() []byte {
	switch {
	case undeclared != nil:
	case len(tools) == 0:
		undeclared = &Raised{Message: "no tool is declared: func main() does it, by rho.Tool(name, description, function)"}
	default:
		return encode(manifest())
	}
	println(undeclared.Message)
	for _, line := range undeclared.Trace {
		println("at", line)
	}
	return nil
}

// answer is one call: a request in, an answer out, both plain CBOR.
func answer(request []byte) (encoded []byte) {
	defer func() {
		if value := recover(); value != nil {
			encoded = encode(panicked(value, module).answer())
		}
	}()
	return encode(dispatch(request))
}

func dispatch(request []byte) map[string]any {
	fault := func(message string) map[string]any { return (&Raised{Message: message}).answer() }
	if !wellFormed(request) {
		return fault("the request is not plain CBOR")
	}
	if undeclared != nil {
		return undeclared.answer()
	}
	whole := reader{data: request}
	parts, ok := whole.parts()
	if !ok {
		return fault("the request is no map")
	}
	if abi, ok := part(parts, "abi").(int64); !ok || abi != 1 {
		return fault("the request is not of ABI 1")
	}
	name, ok := part(parts, "tool").(string)
	if !ok {
		return fault("the request names no tool")
	}
	arguments := parts["arguments"]
	if arguments == nil || arguments.data[arguments.at]>>5 != majorMap {
		return fault("the request has no arguments")
	}
	called := find(name)
	if called == nil {
		return fault("this guest has no tool of that name")
	}
	ctx := contextOf(part(parts, "context"))
	result, err := called.handle(ctx, arguments)
	return answerOf(ctx, result, err)
}

func part(parts map[string]*reader, key string) any {
	if found := parts[key]; found != nil {
		return found.any()
	}
	return nil
}

func contextOf(given any) *Context {
	parts, _ := given.(map[string]any)
	ctx := &Context{}
	ctx.CallID, _ = parts["call_id"].(string)
	ctx.SessionID, _ = parts["session_id"].(string)
	ctx.RequestID, _ = parts["request_id"].(string)
	ctx.Values, _ = parts["values"].(map[string]any)
	return ctx
}
