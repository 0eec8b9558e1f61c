package rho

import (
	"unicode/utf8"
	"unsafe"
)

// maxDepth is the nesting of plain data that a host sends and takes.
const maxDepth = 64

// Negative is an integer below those of int64, from -2^64 on: its value is -1 less the number. An argument of type any
// is one where nothing else holds it; other integers there are int64, or uint64 from 2^63 on.
type Negative uint64

// Major types of CBOR (RFC 8949).
const (
	majorUint = iota
	majorNegative
	majorBytes
	majorText
	majorList
	majorMap
	majorTag
	majorSimple
)

// Further information of majorSimple.
const (
	simpleFalse  = 20
	simpleTrue   = 21
	simpleNull   = 22
	simpleHalf   = 25
	simpleSingle = 26
	simpleDouble = 27
)

// wellFormed tells whether data is one item of plain CBOR, as ABI.md allows it, and nothing else. What is not is never
// read, so that a reader need not doubt what it reads.
func wellFormed(data []byte) bool {
	check := checker{data: data}
	return check.item(0) && check.at == len(data)
}

type checker struct {
	data []byte
	at   int
}

func (c *checker) head() (major, info byte, number uint64, ok bool) {
	if c.at >= len(c.data) {
		return 0, 0, 0, false
	}
	major, info = c.data[c.at]>>5, c.data[c.at]&31
	c.at++
	if info < 24 {
		return major, info, uint64(info), true
	}
	if info > 27 {
		return 0, 0, 0, false // reserved, or of indefinite length
	}
	size := 1 << (info - 24)
	if len(c.data)-c.at < size {
		return 0, 0, 0, false
	}
	for ; size > 0; size-- {
		number = number<<8 | uint64(c.data[c.at])
		c.at++
	}
	return major, info, number, true
}

func (c *checker) item(depth int) bool {
	major, info, number, ok := c.head()
	if !ok {
		return false
	}
	left := uint64(len(c.data) - c.at)
	switch major {
	case majorUint, majorNegative:
		return true
	case majorBytes, majorText:
		if number > left {
			return false
		}
		begin := c.at
		c.at += int(number)
		return major == majorBytes || utf8.Valid(c.data[begin:c.at])
	case majorList:
		// Each item takes a byte at least, so a length over what is left is a lie.
		if number > left || depth >= maxDepth {
			return false
		}
		for ; number > 0; number-- {
			if !c.item(depth + 1) {
				return false
			}
		}
		return true
	case majorMap:
		return number <= left && depth < maxDepth && c.pairs(number, depth+1)
	case majorSimple:
		return info >= simpleFalse && info <= simpleNull || info >= simpleHalf
	}
	return false // a tag
}

// pairs checks those of a map, whose keys are text and occur once. A host sends keys in the order of their encoding, so
// that one look at the last is enough; of keys in another order all are remembered.
func (c *checker) pairs(count uint64, depth int) bool {
	begin, last := c.at, ""
	var all map[string]struct{}
	for done := uint64(0); done < count; done++ {
		key, ok := c.key()
		if !ok {
			return false
		}
		if all == nil && done > 0 && !before(last, key) {
			all = c.keys(begin, done)
		}
		if all != nil {
			if _, twice := all[key]; twice {
				return false
			}
			all[key] = struct{}{}
		}
		if !c.item(depth) {
			return false
		}
		last = key
	}
	return true
}

func (c *checker) key() (string, bool) {
	major, _, number, ok := c.head()
	if !ok || major != majorText || number > uint64(len(c.data)-c.at) {
		return "", false
	}
	begin := c.at
	c.at += int(number)
	return textOf(c.data[begin:c.at]), utf8.Valid(c.data[begin:c.at])
}

// keys are those of the first pairs of a map, which were checked.
func (c *checker) keys(begin int, count uint64) map[string]struct{} {
	walk := reader{data: c.data, at: begin}
	keys := make(map[string]struct{}, count)
	for ; count > 0; count-- {
		keys[walk.text()] = struct{}{}
		walk.skip()
	}
	return keys
}

// before is the order of section 4.2.1 for keys that are text: by length, then by bytes.
func before(one, other string) bool {
	if len(one) != len(other) {
		return len(one) < len(other)
	}
	return one < other
}

// textOf is data as text, not copied: messages are never written to again.
func textOf(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }
