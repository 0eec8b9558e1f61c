package rho

import (
	"math"
	"reflect"
	"slices"
	"strconv"
)

// A reader walks over well-formed data.
type reader struct {
	data []byte
	at   int
}

func (r *reader) head() (major, info byte, number uint64) {
	major, info = r.data[r.at]>>5, r.data[r.at]&31
	r.at++
	if info < 24 {
		return major, info, uint64(info)
	}
	for size := 1 << (info - 24); size > 0; size-- {
		number = number<<8 | uint64(r.data[r.at])
		r.at++
	}
	return major, info, number
}

func (r *reader) take(size uint64) []byte {
	begin := r.at
	r.at += int(size)
	return r.data[begin:r.at:r.at]
}

func (r *reader) text() string {
	_, _, size := r.head()
	return textOf(r.take(size))
}

func (r *reader) skip() {
	major, _, number := r.head()
	switch major {
	case majorBytes, majorText:
		r.at += int(number)
	case majorMap:
		number *= 2
		fallthrough
	case majorList:
		for ; number > 0; number-- {
			r.skip()
		}
	}
}

// parts are the values of a map by their keys; false for anything else.
func (r *reader) parts() (map[string]*reader, bool) {
	major, _, count := r.head()
	if major != majorMap {
		return nil, false
	}
	parts := make(map[string]*reader, count)
	for ; count > 0; count-- {
		key := r.text()
		parts[key] = &reader{data: r.data, at: r.at}
		r.skip()
	}
	return parts, true
}

func integer(major byte, number uint64) any {
	switch {
	case major == majorUint && number > math.MaxInt64:
		return number
	case major == majorUint:
		return int64(number)
	case number > math.MaxInt64:
		return Negative(number)
	default:
		return -1 - int64(number)
	}
}

func float(info byte, number uint64) float64 {
	switch info {
	case simpleHalf:
		return half(uint16(number))
	case simpleSingle:
		return float64(math.Float32frombits(uint32(number)))
	default:
		return math.Float64frombits(number)
	}
}

func half(bits uint16) float64 {
	sign, exponent, fraction := uint64(bits>>15)<<63, uint64(bits>>10&0x1f), uint64(bits&0x3ff)
	switch exponent {
	case 0: // zero and subnormals: fraction * 2^-24 is exact
		return math.Float64frombits(sign | math.Float64bits(float64(fraction)*0x1p-24))
	case 31:
		exponent = 0x7ff
	default:
		exponent += 1023 - 15
	}
	return math.Float64frombits(sign | exponent<<52 | fraction<<42)
}

// any reads what is there: nil, bool, int64, uint64 or Negative (see there), float64, string, []byte, []any,
// map[string]any.
func (r *reader) any() any {
	major, info, number := r.head()
	switch major {
	case majorBytes:
		return slices.Clone(r.take(number))
	case majorText:
		return textOf(r.take(number))
	case majorList:
		list := make([]any, number)
		for at := range list {
			list[at] = r.any()
		}
		return list
	case majorMap:
		made := make(map[string]any, number)
		for ; number > 0; number-- {
			key := r.text()
			made[key] = r.any()
		}
		return made
	case majorSimple:
		switch info {
		case simpleFalse, simpleTrue:
			return info == simpleTrue
		case simpleNull:
			return nil
		}
		return float(info, number)
	}
	return integer(major, number)
}

// into reads one item into target, which has the type of the form. The error names the place of what does not fit; a
// host that checked the arguments by their schema sends little of that.
func (r *reader) into(target reflect.Value, of *form, place string) error {
	if of.kind == kindAny {
		if value := r.any(); value != nil {
			target.Set(reflect.ValueOf(value))
		}
		return nil
	}
	major, info, number := r.head()
	if major == majorSimple && info == simpleNull && of.kind == kindOptional {
		return nil
	}
	switch of.kind {
	case kindOptional:
		r.at = r.rewound(info)
		target.Set(reflect.New(target.Type().Elem()))
		return r.into(target.Elem(), of.element, place)
	case kindBool:
		if major == majorSimple && info <= simpleTrue {
			target.SetBool(info == simpleTrue)
			return nil
		}
	case kindInt, kindUint, kindFloat:
		if isNumber(major, info) {
			return setNumber(target, of, major, info, number, place)
		}
	case kindText:
		if major == majorText {
			target.SetString(textOf(r.take(number)))
			return nil
		}
	case kindBytes:
		if major == majorBytes {
			target.SetBytes(slices.Clone(r.take(number)))
			return nil
		}
		if major == majorText {
			return setBase64(target, r.take(number), place)
		}
	case kindList:
		if major == majorList {
			return r.list(target, of, int(number), place)
		}
	case kindMap:
		if major == majorMap {
			return r.textMap(target, of, int(number), place)
		}
	case kindStruct:
		if major == majorMap {
			return r.structure(target, of, number, place)
		}
	}
	return Failed(place + " must be " + of.described())
}

// rewound is where the head that was just read began.
func (r *reader) rewound(info byte) int {
	if info < 24 {
		return r.at - 1
	}
	return r.at - 1 - 1<<(info-24)
}

func (r *reader) list(target reflect.Value, of *form, count int, place string) error {
	made := reflect.MakeSlice(target.Type(), count, count)
	for at := range count {
		if err := r.into(made.Index(at), of.element, place+"["+strconv.Itoa(at)+"]"); err != nil {
			return err
		}
	}
	target.Set(made)
	return nil
}

func (r *reader) textMap(target reflect.Value, of *form, count int, place string) error {
	kind := target.Type()
	made := reflect.MakeMapWithSize(kind, count)
	for ; count > 0; count-- {
		key := r.text()
		value := reflect.New(kind.Elem()).Elem()
		if err := r.into(value, of.element, place+"."+key); err != nil {
			return err
		}
		made.SetMapIndex(reflect.ValueOf(key).Convert(kind.Key()), value)
	}
	target.Set(made)
	return nil
}

func (r *reader) structure(target reflect.Value, of *form, count uint64, place string) error {
	found := make([]bool, len(of.fields))
	for ; count > 0; count-- {
		key := r.text()
		at := of.find(key)
		if at < 0 {
			r.skip()
			continue
		}
		found[at] = true
		each := &of.fields[at]
		if err := r.into(target.Field(each.index), each.form, place+"."+key); err != nil {
			return err
		}
	}
	for at, there := range found {
		each := &of.fields[at]
		switch {
		case there:
		case each.otherwise.IsValid():
			target.Field(each.index).Set(each.otherwise)
		case !each.optional:
			return Failed(place + "." + each.name + " is missing")
		}
	}
	return nil
}
