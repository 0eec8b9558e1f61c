package rho

import (
	"math"
	"reflect"
	"slices"
	"unicode/utf8"
)

// encode writes a value as plain CBOR. It panics for what plain data has nothing like: text that is no UTF-8, functions,
// channels, nesting over 64.
func encode(value any) []byte {
	out := writer{data: make([]byte, 0, 512)}
	out.any(value, 0)
	return out.data
}

type writer struct{ data []byte }

func (w *writer) head(major byte, number uint64) {
	major <<= 5
	switch {
	case number < 24:
		w.data = append(w.data, major|byte(number))
	case number <= math.MaxUint8:
		w.data = append(w.data, major|24, byte(number))
	case number <= math.MaxUint16:
		w.data = append(w.data, major|25, byte(number>>8), byte(number))
	case number <= math.MaxUint32:
		w.data = append(w.data, major|26, byte(number>>24), byte(number>>16), byte(number>>8), byte(number))
	default:
		w.long(major|27, number)
	}
}

func (w *writer) long(first byte, number uint64) {
	w.data = append(w.data, first)
	for shift := 56; shift >= 0; shift -= 8 {
		w.data = append(w.data, byte(number>>shift))
	}
}

func (w *writer) text(text string) {
	if !utf8.ValidString(text) {
		panic("rho: a text of the answer is no UTF-8: give []byte, or strings.ToValidUTF8")
	}
	w.head(majorText, uint64(len(text)))
	w.data = append(w.data, text...)
}

func (w *writer) bytes(data []byte) {
	w.head(majorBytes, uint64(len(data)))
	w.data = append(w.data, data...)
}

func (w *writer) int(number int64) {
	if number < 0 {
		w.head(majorNegative, uint64(-1-number))
	} else {
		w.head(majorUint, uint64(number))
	}
}

func (w *writer) bool(yes bool) {
	w.simple(map[bool]byte{false: simpleFalse, true: simpleTrue}[yes])
}

func (w *writer) simple(info byte) { w.data = append(w.data, majorSimple<<5|info) }

// any writes what needs no reflection at once.
func (w *writer) any(value any, depth int) {
	switch value := value.(type) {
	case nil:
		w.simple(simpleNull)
	case bool:
		w.bool(value)
	case int:
		w.int(int64(value))
	case int64:
		w.int(value)
	case uint64:
		w.head(majorUint, value)
	case Negative:
		w.head(majorNegative, uint64(value))
	case float64:
		w.long(majorSimple<<5|simpleDouble, math.Float64bits(value))
	case string:
		w.text(value)
	case []byte:
		w.bytes(value)
	case []any:
		w.open(majorList, len(value), depth)
		for _, each := range value {
			w.any(each, depth+1)
		}
	case map[string]any:
		w.open(majorMap, len(value), depth)
		for _, key := range sortedKeys(value) {
			w.text(key)
			w.any(value[key], depth+1)
		}
	case reflect.Value:
		w.value(value, depth)
	default:
		w.value(reflect.ValueOf(value), depth)
	}
}

func (w *writer) open(major byte, count, depth int) {
	if depth >= maxDepth {
		panic("rho: an answer is nested more than 64 deep, or has itself inside")
	}
	w.head(major, uint64(count))
}

func (w *writer) value(value reflect.Value, depth int) {
	switch value.Kind() {
	case reflect.Bool:
		w.bool(value.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.int(value.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if value.Type() == negativeType {
			w.head(majorNegative, value.Uint())
		} else {
			w.head(majorUint, value.Uint())
		}
	case reflect.Float32, reflect.Float64:
		w.long(majorSimple<<5|simpleDouble, math.Float64bits(value.Float()))
	case reflect.String:
		w.text(value.String())
	case reflect.Interface, reflect.Pointer:
		if value.IsNil() {
			w.simple(simpleNull)
		} else if value.Kind() == reflect.Interface {
			w.any(value.Interface(), depth)
		} else {
			w.value(value.Elem(), depth)
		}
	case reflect.Slice, reflect.Array:
		w.list(value, depth)
	case reflect.Map:
		w.textMap(value, depth)
	case reflect.Struct:
		w.structure(value, depth)
	default:
		panic("rho: an answer has a " + value.Kind().String() + ", which plain data has nothing like")
	}
}

func (w *writer) list(value reflect.Value, depth int) {
	if value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Uint8 {
		w.bytes(value.Bytes())
		return
	}
	w.open(majorList, value.Len(), depth)
	for at := range value.Len() {
		w.value(value.Index(at), depth+1)
	}
}

func (w *writer) textMap(value reflect.Value, depth int) {
	if value.Type().Key().Kind() != reflect.String {
		panic("rho: an answer has a map whose keys are no text")
	}
	w.open(majorMap, value.Len(), depth)
	keys := value.MapKeys()
	slices.SortFunc(keys, func(one, other reflect.Value) int {
		if before(one.String(), other.String()) {
			return -1
		}
		return 1
	})
	for _, key := range keys {
		w.text(key.String())
		w.value(value.MapIndex(key), depth+1)
	}
}

// structure leaves out what is optional and zero.
func (w *writer) structure(value reflect.Value, depth int) {
	fields := formOf(value.Type(), "the answer").fields
	count := 0
	there := func(each *field) bool { return !each.optional || !value.Field(each.index).IsZero() }
	for at := range fields {
		if there(&fields[at]) {
			count++
		}
	}
	w.open(majorMap, count, depth)
	for at := range fields {
		if each := &fields[at]; there(each) {
			w.text(each.name)
			w.value(value.Field(each.index), depth+1)
		}
	}
}

func sortedKeys(of map[string]any) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(one, other string) int {
		if before(one, other) {
			return -1
		}
		return 1
	})
	return keys
}
