;; Plain CBOR to and from the format of Python's module marshal (version 2), which CPython reads and writes in C: decoding
;; a small request in Python took longer than all else of a call. Appended to the engine with cpython.wat.
;;
;; Both functions that walk an item answer two positions, where it ended in what is read and in what is written; the
;; first is 0 where the item is not what it should be. Sources: RFC 8949; Python/marshal.c of CPython 3.12.
(module
  (import "cpython" "memory" (memory 1))

  ;; The big-endian number of $width bytes (1, 2, 4, 8) at $at.
  (func $big_endian (param $at i32) (param $width i32) (result i64)
    (local $number i64)
    (loop $next
      (local.set $number
        (i64.or (i64.shl (local.get $number) (i64.const 8)) (i64.load8_u (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (local.tee $width (i32.sub (local.get $width) (i32.const 1)))))
    (local.get $number))

  ;; A type's letter, and 32 bits behind it.
  (func $write_5 (param $out i32) (param $letter i32) (param $number i32) (result i32)
    (i32.store8 (local.get $out) (local.get $letter))
    (i32.store offset=1 (local.get $out) (local.get $number))
    (i32.add (local.get $out) (i32.const 5)))

  ;; An integer: "i" and 32 bits where it has no more, else "l", the number of its digits (less than 0 for one less than
  ;; 0) and the digits, of 15 bits, the lowest first. $number is CBOR's: of a negative one it is -1 less the integer.
  (func $write_integer (param $out i32) (param $number i64) (param $negative i32) (result i32)
    (local $digits i32) (local $carry i64) (local $size i32)
    (if (i64.le_u (local.get $number) (i64.const 0x7fffffff))
      (then
        (return
          (call $write_5 (local.get $out) (i32.const 0x69)
            (i32.xor (i32.wrap_i64 (local.get $number)) (i32.sub (i32.const 0) (local.get $negative)))))))
    (local.set $carry (i64.extend_i32_u (local.get $negative)))
    (local.set $digits (i32.add (local.get $out) (i32.const 5)))
    (loop $next
      (local.set $carry (i64.add (local.get $carry) (i64.and (local.get $number) (i64.const 0x7fff))))
      (i64.store16
        (i32.add (local.get $digits) (i32.shl (local.get $size) (i32.const 1)))
        (i64.and (local.get $carry) (i64.const 0x7fff)))
      (local.set $carry (i64.shr_u (local.get $carry) (i64.const 15)))
      (local.set $number (i64.shr_u (local.get $number) (i64.const 15)))
      (local.set $size (i32.add (local.get $size) (i32.const 1)))
      (br_if $next (i64.ne (i64.or (local.get $number) (local.get $carry)) (i64.const 0))))
    (drop
      (call $write_5 (local.get $out) (i32.const 0x6c)
        (select
          (i32.sub (i32.const 0) (local.get $size))
          (local.get $size)
          (local.get $negative))))
    (i32.add (local.get $digits) (i32.shl (local.get $size) (i32.const 1))))

  ;; A float of half precision.
  (func $half (param $bits i32) (result f64)
    (local $exponent i32) (local $mantissa i32) (local $value f32)
    (local.set $exponent (i32.and (i32.shr_u (local.get $bits) (i32.const 10)) (i32.const 31)))
    (local.set $mantissa (i32.and (local.get $bits) (i32.const 0x3ff)))
    (local.set $value
      (if (result f32) (i32.eqz (local.get $exponent))
        (then (f32.mul (f32.convert_i32_u (local.get $mantissa)) (f32.const 0x1p-24)))
        (else
          (f32.reinterpret_i32
            (i32.or
              (i32.shl (local.get $mantissa) (i32.const 13))
              (i32.shl
                (select
                  (i32.const 255)
                  (i32.add (local.get $exponent) (i32.const 112))
                  (i32.eq (local.get $exponent) (i32.const 31)))
                (i32.const 23)))))))
    (f64.promote_f32
      (f32.copysign
        (local.get $value)
        (select (f32.const -1) (f32.const 1) (i32.and (local.get $bits) (i32.const 0x8000))))))

  ;; Whether there is a surrogate in UTF-8: the byte ED, and one from A0 on. Eight bytes of ASCII are passed over at once.
  (func $has_surrogate (param $at i32) (param $end i32) (result i32)
    (block $none
      (loop $next
        (br_if $none (i32.ge_u (local.get $at) (local.get $end)))
        (if (i32.ge_u (i32.sub (local.get $end) (local.get $at)) (i32.const 8))
          (then
            (if (i64.eqz (i64.and (i64.load (local.get $at)) (i64.const 0x8080808080808080)))
              (then
                (local.set $at (i32.add (local.get $at) (i32.const 8)))
                (br $next)))))
        (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0xed))
          (then
            (if (i32.ge_u (i32.load8_u offset=1 (local.get $at)) (i32.const 0xa0))
              (then (return (i32.const 1))))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  ;; Whether the key at $key comes after the one at $last, in the order in which a host sends them: shorter ones first,
  ;; then by their bytes. So none occurs twice. A $last_size of -1 is no key.
  (func $comes_after (param $last i32) (param $last_size i32) (param $key i32) (param $size i32) (result i32)
    (if (i32.ne (local.get $last_size) (local.get $size))
      (then (return (i32.gt_s (local.get $size) (local.get $last_size)))))
    (loop $next
      (if (i32.eqz (local.get $size)) (then (return (i32.const 0))))
      (if (i32.ne (i32.load8_u (local.get $key)) (i32.load8_u (local.get $last)))
        (then (return (i32.gt_u (i32.load8_u (local.get $key)) (i32.load8_u (local.get $last))))))
      (local.set $key (i32.add (local.get $key) (i32.const 1)))
      (local.set $last (i32.add (local.get $last) (i32.const 1)))
      (local.set $size (i32.sub (local.get $size) (i32.const 1)))
      (br $next))
    (unreachable))

  ;; How long the head is that begins with $first.
  (func $head_bytes (param $first i32) (result i32)
    (local.set $first (i32.and (local.get $first) (i32.const 31)))
    (if (i32.lt_u (local.get $first) (i32.const 24)) (then (return (i32.const 1))))
    (i32.add (i32.const 1) (i32.shl (i32.const 1) (i32.sub (local.get $first) (i32.const 24)))))

  ;; One CBOR item at $in, and in marshal's format at $out: at most five times as long, and 16 bytes.
  (func $unpack_item (param $in i32) (param $end i32) (param $out i32) (param $depth i32) (result i32 i32)
    (local $first i32) (local $low i32) (local $width i32) (local $number i64) (local $count i32)
    (local $item i32) (local $last i32) (local $last_size i32)
    (block $bad
      (br_if $bad (i32.ge_u (local.get $in) (local.get $end)))
      (local.set $first (i32.load8_u (local.get $in)))
      (local.set $in (i32.add (local.get $in) (i32.const 1)))
      (local.set $low (i32.and (local.get $first) (i32.const 31)))
      (if (i32.lt_u (local.get $low) (i32.const 24))
        (then (local.set $number (i64.extend_i32_u (local.get $low))))
        (else
          (br_if $bad (i32.gt_u (local.get $low) (i32.const 27)))
          (local.set $width (i32.shl (i32.const 1) (i32.sub (local.get $low) (i32.const 24))))
          (br_if $bad (i32.gt_u (local.get $width) (i32.sub (local.get $end) (local.get $in))))
          (local.set $number (call $big_endian (local.get $in) (local.get $width)))
          (local.set $in (i32.add (local.get $in) (local.get $width)))))
      (block $simple
        (block $map
          (block $list
            (block $string
              (block $integer
                (br_table $integer $integer $string $string $list $map $bad $simple
                  (i32.shr_u (local.get $first) (i32.const 5))))
              (return
                (local.get $in)
                (call $write_integer (local.get $out) (local.get $number)
                  (i32.shr_u (local.get $first) (i32.const 5)))))
            ;; $string: bytes are "s", text is "u".
            (br_if $bad
              (i64.gt_u (local.get $number) (i64.extend_i32_u (i32.sub (local.get $end) (local.get $in)))))
            ;; All else that is no UTF-8 is found by marshal.
            (if (i32.ge_u (local.get $first) (i32.const 0x60))
              (then
                (br_if $bad
                  (call $has_surrogate
                    (local.get $in)
                    (i32.add (local.get $in) (i32.wrap_i64 (local.get $number)))))))
            (local.set $out
              (call $write_5
                (local.get $out)
                (select (i32.const 0x73) (i32.const 0x75) (i32.lt_u (local.get $first) (i32.const 0x60)))
                (i32.wrap_i64 (local.get $number))))
            (memory.copy (local.get $out) (local.get $in) (i32.wrap_i64 (local.get $number)))
            (return
              (i32.add (local.get $in) (i32.wrap_i64 (local.get $number)))
              (i32.add (local.get $out) (i32.wrap_i64 (local.get $number)))))
          ;; $list: an item takes at least a byte, so no more are begun than there may be.
          (br_if $bad (i32.eqz (local.get $depth)))
          (br_if $bad
            (i64.gt_u (local.get $number) (i64.extend_i32_u (i32.sub (local.get $end) (local.get $in)))))
          (local.set $count (i32.wrap_i64 (local.get $number)))
          (local.set $out (call $write_5 (local.get $out) (i32.const 0x5b) (local.get $count)))
          (block $done
            (loop $next
              (br_if $done (i32.eqz (local.get $count)))
              (local.set $count (i32.sub (local.get $count) (i32.const 1)))
              (call $unpack_item
                (local.get $in) (local.get $end) (local.get $out) (i32.sub (local.get $depth) (i32.const 1)))
              (local.set $out)
              (br_if $next (local.tee $in))
              (br $bad)))
          (return (local.get $in) (local.get $out)))
        ;; $map: "{", keys and values in turn, "0".
        (br_if $bad (i32.eqz (local.get $depth)))
        (br_if $bad
          (i64.gt_u (local.get $number) (i64.extend_i32_u (i32.sub (local.get $end) (local.get $in)))))
        (local.set $count (i32.shl (i32.wrap_i64 (local.get $number)) (i32.const 1)))
        (i32.store8 (local.get $out) (i32.const 0x7b))
        (local.set $out (i32.add (local.get $out) (i32.const 1)))
        (local.set $last_size (i32.const -1))
        (block $done
          (loop $next
            (br_if $done (i32.eqz (local.get $count)))
            (if (i32.eqz (i32.and (local.get $count) (i32.const 1)))
              (then
                (br_if $bad (i32.ge_u (local.get $in) (local.get $end)))
                (br_if $bad
                  (i32.ne (i32.shr_u (i32.load8_u (local.get $in)) (i32.const 5)) (i32.const 3)))))
            (local.set $count (i32.sub (local.get $count) (i32.const 1)))
            (local.set $item (local.get $in))
            (call $unpack_item
              (local.get $in) (local.get $end) (local.get $out) (i32.sub (local.get $depth) (i32.const 1)))
            (local.set $out)
            (br_if $bad (i32.eqz (local.tee $in)))
            (if (i32.and (local.get $count) (i32.const 1))
              (then
                (local.set $item
                  (i32.add (local.get $item) (call $head_bytes (i32.load8_u (local.get $item)))))
                (br_if $bad
                  (i32.eqz
                    (call $comes_after
                      (local.get $last) (local.get $last_size)
                      (local.get $item) (i32.sub (local.get $in) (local.get $item)))))
                (local.set $last (local.get $item))
                (local.set $last_size (i32.sub (local.get $in) (local.get $item)))))
            (br $next)))
        (i32.store8 (local.get $out) (i32.const 0x30))
        (return (local.get $in) (i32.add (local.get $out) (i32.const 1))))
      ;; $simple: false, true, null are one letter; floats are "g" and eight bytes.
      (if (i32.lt_u (local.get $low) (i32.const 25))
        (then
          (local.set $low (i32.sub (local.get $low) (i32.const 20)))
          (br_if $bad (i32.gt_u (local.get $low) (i32.const 2)))
          (i32.store8
            (local.get $out)
            (i32.shr_u (i32.const 0x4e5446) (i32.shl (local.get $low) (i32.const 3))))
          (return (local.get $in) (i32.add (local.get $out) (i32.const 1)))))
      (i32.store8 (local.get $out) (i32.const 0x67))
      (f64.store offset=1
        (local.get $out)
        (if (result f64) (i32.eq (local.get $low) (i32.const 25))
          (then (call $half (i32.wrap_i64 (local.get $number))))
          (else
            (if (result f64) (i32.eq (local.get $low) (i32.const 26))
              (then (f64.promote_f32 (f32.reinterpret_i32 (i32.wrap_i64 (local.get $number)))))
              (else (f64.reinterpret_i64 (local.get $number)))))))
      (return (local.get $in) (i32.add (local.get $out) (i32.const 9))))
    (i32.const 0)
    (i32.const 0))

  ;; The length of what was written for all of what is there: 0 if it is not exactly one item of plain CBOR.
  (func (export "rho:unpack") (param $in i32) (param $length i32) (param $out i32) (result i32)
    (local $end i32) (local $ended i32)
    (local.set $end (i32.add (local.get $in) (local.get $length)))
    (call $unpack_item (local.get $in) (local.get $end) (local.get $out) (i32.const 64))
    (local.set $ended)
    (if (i32.ne (local.get $end)) (then (return (i32.const 0))))
    (i32.sub (local.get $ended) (local.get $out)))

  ;; A CBOR head, as short as can be.
  (func $write_head (param $out i32) (param $major i32) (param $number i64) (result i32)
    (local $width i32) (local $at i32)
    (local.set $major (i32.shl (local.get $major) (i32.const 5)))
    (if (i64.lt_u (local.get $number) (i64.const 24))
      (then
        (i32.store8 (local.get $out) (i32.or (local.get $major) (i32.wrap_i64 (local.get $number))))
        (return (i32.add (local.get $out) (i32.const 1)))))
    (local.set $width
      (i32.add
        (i64.gt_u (local.get $number) (i64.const 0xff))
        (i32.add
          (i64.gt_u (local.get $number) (i64.const 0xffff))
          (i64.gt_u (local.get $number) (i64.const 0xffffffff)))))
    (i32.store8
      (local.get $out)
      (i32.or (local.get $major) (i32.add (i32.const 24) (local.get $width))))
    (local.set $width (i32.shl (i32.const 1) (local.get $width)))
    (local.set $at (i32.add (local.get $out) (local.get $width)))
    (loop $next
      (i64.store8 (local.get $at) (local.get $number))
      (local.set $number (i64.shr_u (local.get $number) (i64.const 8)))
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (br_if $next (i32.gt_u (local.get $at) (local.get $out))))
    (i32.add (i32.add (local.get $out) (local.get $width)) (i32.const 1)))

  ;; The digits of "l" as CBOR's number: of $size of them at $at, at most five. 1 as the second where there are too many.
  (func $digits (param $at i32) (param $size i32) (param $negative i32) (result i64 i32)
    (local $number i64) (local $top i64) (local $place i32)
    (block $bad
      (loop $next
        (if (i32.lt_u (local.get $place) (local.get $size))
          (then
            (local.set $top
              (i64.load16_u (i32.add (local.get $at) (i32.shl (local.get $place) (i32.const 1)))))
            (local.set $number
              (i64.or
                (local.get $number)
                (i64.shl
                  (local.get $top)
                  (i64.extend_i32_u (i32.mul (local.get $place) (i32.const 15))))))
            (local.set $place (i32.add (local.get $place) (i32.const 1)))
            (br $next))))
      ;; The fifth digit has room for four bits; 2 ** 64 itself only where one is taken off.
      (if (i32.eq (local.get $size) (i32.const 5))
        (then
          (br_if $bad (i64.gt_u (local.get $top) (i64.const 16)))
          (if (i64.eq (local.get $top) (i64.const 16))
            (then
              (br_if $bad (i32.eqz (local.get $negative)))
              (br_if $bad (i64.ne (local.get $number) (i64.const 0)))))))
      (return (i64.sub (local.get $number) (i64.extend_i32_u (local.get $negative))) (i32.const 0)))
    (i64.const 0)
    (i32.const 1))

  ;; One item in marshal's format at $in, and in CBOR at $out, which may be the same place: CBOR is never longer. Bytes
  ;; are left to Python, since marshal writes whatever has a buffer as bytes.
  (func $pack_item (param $in i32) (param $end i32) (param $out i32) (param $depth i32) (result i32 i32)
    (local $letter i32) (local $size i32) (local $number i64) (local $head i32) (local $count i32)
    (block $bad
      (br_if $bad (i32.ge_u (local.get $in) (local.get $end)))
      (local.set $letter (i32.load8_u (local.get $in)))
      (local.set $in (i32.add (local.get $in) (i32.const 1)))
      (block $longer
        (block $whole
          (local.set $size (i32.const 0xf4))
          (br_if $whole (i32.eq (local.get $letter) (i32.const 0x46))) ;; "F"
          (local.set $size (i32.const 0xf5))
          (br_if $whole (i32.eq (local.get $letter) (i32.const 0x54))) ;; "T"
          (local.set $size (i32.const 0xf6))
          (br_if $longer (i32.ne (local.get $letter) (i32.const 0x4e)))) ;; "N"
        (i32.store8 (local.get $out) (local.get $size))
        (return (local.get $in) (i32.add (local.get $out) (i32.const 1))))
      (if (i32.eq (local.get $letter) (i32.const 0x67)) ;; "g"
        (then
          (br_if $bad (i32.gt_u (i32.const 8) (i32.sub (local.get $end) (local.get $in))))
          (local.set $number (i64.load (local.get $in)))
          (i32.store8 (local.get $out) (i32.const 0xfb))
          (call $store_big_endian (i32.add (local.get $out) (i32.const 1)) (local.get $number))
          (return (i32.add (local.get $in) (i32.const 8)) (i32.add (local.get $out) (i32.const 9)))))
      (if (i32.eq (local.get $letter) (i32.const 0x7b)) ;; "{"
        (then
          (br_if $bad (i32.eqz (local.get $depth)))
          ;; How many pairs there are is known once they are written: most often one byte is enough to say it.
          (local.set $head (local.get $out))
          (local.set $out (i32.add (local.get $out) (i32.const 1)))
          (loop $next
            (br_if $bad (i32.ge_u (local.get $in) (local.get $end)))
            (if (i32.ne (i32.load8_u (local.get $in)) (i32.const 0x30))
              (then
                (br_if $bad (i32.ne (i32.load8_u (local.get $in)) (i32.const 0x75)))
                (call $pack_item
                  (local.get $in) (local.get $end) (local.get $out) (i32.sub (local.get $depth) (i32.const 1)))
                (local.set $out)
                (br_if $bad (i32.eqz (local.tee $in)))
                (call $pack_item
                  (local.get $in) (local.get $end) (local.get $out) (i32.sub (local.get $depth) (i32.const 1)))
                (local.set $out)
                (br_if $bad (i32.eqz (local.tee $in)))
                (local.set $count (i32.add (local.get $count) (i32.const 1)))
                (br $next))))
          (local.set $size
            (i32.sub
              (call $head_size (local.get $count))
              (i32.const 1)))
          (if (local.get $size)
            (then
              (memory.copy
                (i32.add (i32.add (local.get $head) (i32.const 1)) (local.get $size))
                (i32.add (local.get $head) (i32.const 1))
                (i32.sub (local.get $out) (i32.add (local.get $head) (i32.const 1))))))
          (drop
            (call $write_head (local.get $head) (i32.const 5) (i64.extend_i32_u (local.get $count))))
          (return
            (i32.add (local.get $in) (i32.const 1))
            (i32.add (local.get $out) (local.get $size)))))
      ;; All others have a number of 32 bits.
      (br_if $bad (i32.gt_u (i32.const 4) (i32.sub (local.get $end) (local.get $in))))
      (local.set $size (i32.load (local.get $in)))
      (local.set $in (i32.add (local.get $in) (i32.const 4)))
      (if (i32.eq (local.get $letter) (i32.const 0x69)) ;; "i"
        (then
          (return
            (local.get $in)
            (call $write_head
              (local.get $out)
              (i32.lt_s (local.get $size) (i32.const 0))
              (i64.extend_i32_u
                (i32.xor (local.get $size) (i32.shr_s (local.get $size) (i32.const 31))))))))
      (if (i32.eq (local.get $letter) (i32.const 0x75)) ;; "u"
        (then
          (br_if $bad (i32.gt_u (local.get $size) (i32.sub (local.get $end) (local.get $in))))
          (local.set $head (i32.add (local.get $in) (local.get $size)))
          (br_if $bad (call $has_surrogate (local.get $in) (local.get $head)))
          (local.set $out
            (call $write_head (local.get $out) (i32.const 3) (i64.extend_i32_u (local.get $size))))
          (memory.copy (local.get $out) (local.get $in) (local.get $size))
          (return (local.get $head) (i32.add (local.get $out) (local.get $size)))))
      (if (i32.or
            (i32.eq (local.get $letter) (i32.const 0x5b)) ;; "["
            (i32.eq (local.get $letter) (i32.const 0x28))) ;; "(": a tuple
        (then
          (br_if $bad (i32.eqz (local.get $depth)))
          (local.set $out
            (call $write_head (local.get $out) (i32.const 4) (i64.extend_i32_u (local.get $size))))
          (loop $next
            (if (local.get $size)
              (then
                (call $pack_item
                  (local.get $in) (local.get $end) (local.get $out) (i32.sub (local.get $depth) (i32.const 1)))
                (local.set $out)
                (br_if $bad (i32.eqz (local.tee $in)))
                (local.set $size (i32.sub (local.get $size) (i32.const 1)))
                (br $next))))
          (return (local.get $in) (local.get $out))))
      (br_if $bad (i32.ne (local.get $letter) (i32.const 0x6c))) ;; "l"
      (local.set $letter (i32.lt_s (local.get $size) (i32.const 0)))
      (if (local.get $letter) (then (local.set $size (i32.sub (i32.const 0) (local.get $size)))))
      (br_if $bad (i32.gt_u (local.get $size) (i32.const 5)))
      (br_if $bad
        (i32.gt_u (i32.shl (local.get $size) (i32.const 1)) (i32.sub (local.get $end) (local.get $in))))
      (call $digits (local.get $in) (local.get $size) (local.get $letter))
      (br_if $bad)
      (local.set $number)
      (return
        (i32.add (local.get $in) (i32.shl (local.get $size) (i32.const 1)))
        (call $write_head (local.get $out) (local.get $letter) (local.get $number))))
    (i32.const 0)
    (i32.const 0))

  ;; How long a head is.
  (func $head_size (param $number i32) (result i32)
    (i32.add
      (i32.add
        (i32.const 1)
        (i32.gt_u (local.get $number) (i32.const 23)))
      (i32.add
        (i32.gt_u (local.get $number) (i32.const 0xff))
        (i32.shl (i32.gt_u (local.get $number) (i32.const 0xffff)) (i32.const 1)))))

  (func $store_big_endian (param $at i32) (param $number i64)
    (local $place i32)
    (local.set $place (i32.const 7))
    (loop $next
      (i64.store8 (i32.add (local.get $at) (local.get $place)) (local.get $number))
      (local.set $number (i64.shr_u (local.get $number) (i64.const 8)))
      (local.set $place (i32.sub (local.get $place) (i32.const 1)))
      (br_if $next (i32.ge_s (local.get $place) (i32.const 0)))))

  ;; Makes CBOR of the whole in place and answers how long it is: 0 if that cannot be, and Python has to say why.
  (func (export "rho:pack") (param $at i32) (param $length i32) (result i32)
    (local $end i32) (local $ended i32)
    (local.set $end (i32.add (local.get $at) (local.get $length)))
    (call $pack_item (local.get $at) (local.get $end) (local.get $at) (i32.const 64))
    (local.set $ended)
    (if (i32.ne (local.get $end)) (then (return (i32.const 0))))
    (i32.sub (local.get $ended) (local.get $at))))
