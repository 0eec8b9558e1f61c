package rho

import "reflect"

// HostError says that the host did not do what it was asked for. Kind is denied, undeclared, invalid_arguments, quota
// or unavailable.
type HostError struct {
	Kind    string `rho:"kind"`
	Message string `rho:"message"`
}

func (e *HostError) Error() string { return e.Kind + ": " + e.Message }

// HostCall asks the host for a capability, which [Capabilities] must have declared, and answers what the host does.
// arguments is a struct or a map with text keys; nil is an empty map. T may be any.
//
// The error is a [*HostError] where the host refuses, and another where its answer is no T.
func HostCall[T any](capability string, arguments any) (T, error) {
	var answer T
	if arguments == nil {
		arguments = map[string]any{}
	}
	request := encode(map[string]any{"capability": capability, "arguments": arguments})
	reply := hostCall(request)
	if !wellFormed(reply) {
		panic("rho: the host's reply is malformed")
	}
	whole := reader{data: reply}
	parts, ok := whole.parts()
	if !ok || len(parts) != 1 {
		panic("rho: the host's reply is malformed")
	}
	if value, ok := parts["ok"]; ok {
		form := formOf(reflect.TypeFor[T](), capability+": answer")
		return answer, value.into(reflect.ValueOf(&answer).Elem(), form, capability)
	}
	refused := &HostError{}
	told, ok := parts["error"]
	if !ok || told.into(reflect.ValueOf(refused).Elem(), formOf(reflect.TypeFor[HostError](), capability), "error") != nil {
		panic("rho: the host's reply is malformed")
	}
	return answer, refused
}
