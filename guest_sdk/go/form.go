package rho

import (
	"reflect"
	"strconv"
	"strings"
)

// What a type is in plain data.
type kind uint8

const (
	kindAny kind = iota
	kindBool
	kindInt
	kindUint
	kindFloat
	kindText
	kindBytes
	kindList
	kindMap
	kindStruct
	kindOptional // a pointer: the element, or null
)

// A form is what a Go type is in plain data: read and written by it, and made into a schema. Forms are made when the
// tools are declared, so that no call spends time on it.
type form struct {
	kind    kind
	bits    int   // of a number
	element *form // of a list, a map, a pointer
	fields  []field
}

type field struct {
	name, description string
	index             int
	form              *form
	optional          bool
	otherwise         reflect.Value // the default, or the zero Value
	bounds            map[string]any
}

var (
	negativeType = reflect.TypeFor[Negative]()
	bytesType    = reflect.TypeFor[[]byte]()
)

// formOf panics where plain data has nothing like the type; place says of what.
func formOf(of reflect.Type, place string) *form { return formWithin(of, place, nil) }

func formWithin(of reflect.Type, place string, outer []reflect.Type) *form {
	for _, each := range outer {
		if each == of {
			panic("rho: " + place + " has itself inside: use any there")
		}
	}
	inside := func(element reflect.Type) *form { return formWithin(element, place, append(outer, of)) }
	switch of.Kind() {
	case reflect.Bool:
		return &form{kind: kindBool}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &form{kind: kindInt, bits: of.Bits()}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if of == negativeType {
			break
		}
		return &form{kind: kindUint, bits: of.Bits()}
	case reflect.Float32, reflect.Float64:
		return &form{kind: kindFloat, bits: of.Bits()}
	case reflect.String:
		return &form{kind: kindText}
	case reflect.Interface:
		if of.NumMethod() == 0 {
			return &form{kind: kindAny}
		}
	case reflect.Slice:
		if of == bytesType {
			return &form{kind: kindBytes}
		}
		return &form{kind: kindList, element: inside(of.Elem())}
	case reflect.Map:
		if of.Key().Kind() == reflect.String {
			return &form{kind: kindMap, element: inside(of.Elem())}
		}
	case reflect.Pointer:
		return &form{kind: kindOptional, element: inside(of.Elem())}
	case reflect.Struct:
		return structForm(of, place, append(outer, of))
	}
	panic("rho: " + place + " has the type " + of.String() + ", which plain data has nothing like")
}

func structForm(of reflect.Type, place string, outer []reflect.Type) *form {
	made := &form{kind: kindStruct}
	for index := range of.NumField() {
		each := of.Field(index)
		tag := each.Tag.Get("rho")
		if !each.IsExported() || tag == "-" {
			continue
		}
		name, words, _ := strings.Cut(tag, ",")
		if name == "" {
			name = snakeCase(each.Name)
		}
		where := place + "." + name
		if made.find(name) >= 0 {
			panic("rho: " + where + " is there twice")
		}
		added := field{
			name:        name,
			description: each.Tag.Get("desc"),
			index:       index,
			form:        formWithin(each.Type, where, outer),
			optional:    each.Type.Kind() == reflect.Pointer,
		}
		switch words {
		case "":
		case "optional":
			added.optional = true
		default:
			panic("rho: " + where + ": after the name only ,optional may stand in the tag, not ," + words)
		}
		added.bounds = added.form.bounds(each.Tag, where)
		if text, ok := each.Tag.Lookup("default"); ok {
			value := added.form.parse(text, where+": default")
			added.otherwise = reflect.ValueOf(value).Convert(each.Type)
			added.bounds["default"] = value
			added.optional = true
		}
		made.fields = append(made.fields, added)
	}
	return made
}

// find is the place of a field among those of a struct; -1 where there is none.
func (f *form) find(name string) int {
	for at := range f.fields {
		if f.fields[at].name == name {
			return at
		}
	}
	return -1
}

// described is what a message calls a value of the form.
func (f *form) described() string {
	return [...]string{
		"anything", "true or false", "a whole number", "a whole number from 0 on", "a number", "a text",
		"bytes, or base64 text", "a list", "a map", "a map", "that or null",
	}[f.kind]
}

// bounds are what a field's tags add to its schema.
func (f *form) bounds(tag reflect.StructTag, where string) map[string]any {
	bounds := map[string]any{}
	for _, side := range []string{"min", "max"} {
		text, ok := tag.Lookup(side)
		if !ok {
			continue
		}
		measure := side + map[kind]string{
			kindInt: "imum", kindUint: "imum", kindFloat: "imum", kindText: "Length", kindList: "Items", kindMap: "Properties",
		}[f.kind]
		if measure == side {
			panic("rho: " + where + ": " + side + " is for numbers, text, lists and maps")
		}
		counted := &form{kind: kindUint, bits: 32}
		if measure == side+"imum" {
			counted = f
		}
		bounds[measure] = counted.parse(text, where+": "+side)
	}
	if pattern, ok := tag.Lookup("pattern"); ok {
		bounds["pattern"] = pattern
	}
	if text, ok := tag.Lookup("enum"); ok {
		var values []any
		for _, each := range strings.Split(text, "|") {
			values = append(values, f.parse(each, where+": enum"))
		}
		bounds["enum"] = values
	}
	return bounds
}

// parse reads a value out of a tag.
func (f *form) parse(text, where string) any {
	var value any
	var err error
	switch f.kind {
	case kindBool:
		value, err = strconv.ParseBool(text)
	case kindInt:
		value, err = strconv.ParseInt(text, 10, f.bits)
	case kindUint:
		value, err = strconv.ParseUint(text, 10, f.bits)
	case kindFloat:
		value, err = strconv.ParseFloat(text, f.bits)
	case kindText:
		return text
	default:
		panic("rho: " + where + " is for a bool, a number or a text only")
	}
	if err != nil {
		panic("rho: " + where + " is " + strconv.Quote(text) + ", which does not fit the field")
	}
	return value
}

// schema is the JSON schema of the form.
func (f *form) schema() map[string]any {
	switch f.kind {
	case kindBool:
		return map[string]any{"type": "boolean"}
	case kindInt:
		if f.bits < 64 {
			return map[string]any{"type": "integer", "minimum": int64(-1) << (f.bits - 1), "maximum": int64(1)<<(f.bits-1) - 1}
		}
		return map[string]any{"type": "integer"}
	case kindUint:
		if f.bits < 64 {
			return map[string]any{"type": "integer", "minimum": 0, "maximum": int64(1)<<f.bits - 1}
		}
		return map[string]any{"type": "integer", "minimum": 0}
	case kindFloat:
		return map[string]any{"type": "number"}
	case kindText:
		return map[string]any{"type": "string"}
	case kindBytes:
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case kindList:
		return map[string]any{"type": "array", "items": f.element.schema()}
	case kindMap:
		made := map[string]any{"type": "object"}
		if inside := f.element.schema(); len(inside) > 0 {
			made["additionalProperties"] = inside
		}
		return made
	case kindOptional:
		if inside := f.element.schema(); len(inside) > 0 {
			return map[string]any{"anyOf": []any{inside, map[string]any{"type": "null"}}}
		}
	case kindStruct:
		return f.structSchema()
	}
	return map[string]any{}
}

func (f *form) structSchema() map[string]any {
	properties := map[string]any{}
	var required []any
	for _, each := range f.fields {
		inside := each.form.schema()
		for name, bound := range each.bounds {
			inside[name] = bound
		}
		if each.description != "" {
			inside["description"] = each.description
		}
		properties[each.name] = inside
		if !each.optional {
			required = append(required, each.name)
		}
	}
	made := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		made["required"] = required
	}
	return made
}

// snakeCase makes MaxItems max_items, UserID user_id, and UserIDs user_ids.
func snakeCase(name string) string {
	var made strings.Builder
	upper := func(at int) bool { return at < len(name) && name[at] >= 'A' && name[at] <= 'Z' }
	for at := 0; at < len(name); at++ {
		if !upper(at) {
			made.WriteByte(name[at])
			continue
		}
		if rest := name[at+1:]; at > 0 && (!upper(at-1) || rest != "" && rest != "s" && !upper(at+1)) {
			made.WriteByte('_')
		}
		made.WriteByte(name[at] + 'a' - 'A')
	}
	return made.String()
}
