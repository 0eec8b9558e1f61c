package rho

import (
	"math"
	"reflect"
)

func isNumber(major, info byte) bool {
	return major == majorUint || major == majorNegative || major == majorSimple && info >= simpleHalf
}

// setNumber sets a number of any kind to one that equals it. A JSON 3.0 is a fine 3, and a 3 a fine 3.0.
func setNumber(target reflect.Value, of *form, major, info byte, number uint64, place string) error {
	var as float64
	switch major {
	case majorUint:
		as = float64(number)
	case majorNegative:
		as = -1 - float64(number)
	default:
		as = float(info, number)
		if of.kind == kindFloat {
			break
		}
		var ok bool
		if major, number, ok = whole(as); !ok {
			return Failed(place + " must be " + of.described())
		}
	}
	switch of.kind {
	case kindInt:
		value := int64(number)
		if major == majorNegative {
			value = -1 - value
		}
		if number > math.MaxInt64 || target.OverflowInt(value) {
			return Failed(place + " is beyond what a " + target.Type().String() + " holds")
		}
		target.SetInt(value)
	case kindUint:
		if major == majorNegative {
			return Failed(place + " must be " + of.described())
		}
		if target.OverflowUint(number) {
			return Failed(place + " is beyond what a " + target.Type().String() + " holds")
		}
		target.SetUint(number)
	default:
		target.SetFloat(as)
	}
	return nil
}

// whole is a float as an integer's major type and number; false where it has a fraction or is too large.
func whole(value float64) (major byte, number uint64, ok bool) {
	switch {
	case value != math.Trunc(value):
		return 0, 0, false
	case value >= 0 && value < 0x1p64:
		return majorUint, uint64(value), true
	case value < 0 && value >= -0x1p63:
		return majorNegative, uint64(-1 - int64(value)), true
	}
	return 0, 0, false
}

// setBase64 takes the text that bytes are in JSON, in either alphabet, with or without padding.
func setBase64(target reflect.Value, text []byte, place string) error {
	if len(text)%4 == 0 {
		for n := 0; n < 2 && len(text) > 0 && text[len(text)-1] == '='; n++ {
			text = text[:len(text)-1]
		}
	}
	made := make([]byte, 0, len(text)/4*3+2)
	var bits uint32
	for at, each := range text {
		value, ok := sixBits(each)
		if !ok {
			return Failed(place + " is no base64 text")
		}
		bits = bits<<6 | value
		if at%4 != 0 {
			made = append(made, byte(bits>>(6-2*(at%4))))
		}
	}
	if len(text)%4 == 1 {
		return Failed(place + " is no base64 text")
	}
	target.SetBytes(made)
	return nil
}

func sixBits(each byte) (uint32, bool) {
	switch {
	case each >= 'A' && each <= 'Z':
		return uint32(each - 'A'), true
	case each >= 'a' && each <= 'z':
		return uint32(each-'a') + 26, true
	case each >= '0' && each <= '9':
		return uint32(each-'0') + 52, true
	case each == '+', each == '-':
		return 62, true
	case each == '/', each == '_':
		return 63, true
	}
	return 0, false
}
