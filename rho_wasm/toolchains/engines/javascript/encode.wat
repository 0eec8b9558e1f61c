  ;; ---- values to plain CBOR
  ;; 0: written. 1: an exception waits. 2: not plain, to be told by $on_not_plain.

  (func $need (param $more i32)
    (local $wanted i32)
    (if (i32.le_u (local.get $more) (i32.sub (global.get $room) (global.get $used))) (then (return)))
    (local.set $wanted (i32.add (global.get $used) (local.get $more)))
    ;; Both below 2^29, so that nothing here wraps round; no host takes so long an answer.
    (if (i32.gt_u (i32.or (global.get $used) (local.get $more)) (i32.const 0x1fff_ffff)) (then (unreachable)))
    (local.set $wanted (i32.add (local.get $wanted) (select (local.get $wanted) (i32.const 512)
      (i32.gt_u (local.get $wanted) (i32.const 512)))))
    (global.set $out (call $realloc (global.get $out) (local.get $wanted)))
    (if (i32.eqz (global.get $out)) (then (unreachable)))
    (global.set $room (local.get $wanted)))

  (func $head (param $major i32) (param $value i64)
    (local $to i32)
    (call $need (i32.const 9))
    (local.set $to (i32.add (global.get $out) (global.get $used)))
    (if (i64.lt_u (local.get $value) (i64.const 24))
      (then
        (i32.store8 (local.get $to) (i32.or (local.get $major) (i32.wrap_i64 (local.get $value))))
        (global.set $used (i32.add (global.get $used) (i32.const 1)))
        (return)))
    (if (i64.lt_u (local.get $value) (i64.const 256))
      (then
        (i32.store8 (local.get $to) (i32.or (local.get $major) (i32.const 24)))
        (i64.store8 offset=1 (local.get $to) (local.get $value))
        (global.set $used (i32.add (global.get $used) (i32.const 2)))
        (return)))
    (if (i64.lt_u (local.get $value) (i64.const 0x1_0000))
      (then
        (i32.store8 (local.get $to) (i32.or (local.get $major) (i32.const 25)))
        (i64.store8 offset=1 (local.get $to) (i64.shr_u (local.get $value) (i64.const 8)))
        (i64.store8 offset=2 (local.get $to) (local.get $value))
        (global.set $used (i32.add (global.get $used) (i32.const 3)))
        (return)))
    (if (i64.lt_u (local.get $value) (i64.const 0x1_0000_0000))
      (then
        (i32.store8 (local.get $to) (i32.or (local.get $major) (i32.const 26)))
        (call $store_big_endian (i32.add (local.get $to) (i32.const 1)) (local.get $value) (i32.const 4))
        (global.set $used (i32.add (global.get $used) (i32.const 5)))
        (return)))
    (i32.store8 (local.get $to) (i32.or (local.get $major) (i32.const 27)))
    (call $store_big_endian (i32.add (local.get $to) (i32.const 1)) (local.get $value) (i32.const 8))
    (global.set $used (i32.add (global.get $used) (i32.const 9))))

  (func $store_big_endian (param $to i32) (param $value i64) (param $width i32)
    (loop $next
      (local.set $width (i32.sub (local.get $width) (i32.const 1)))
      (i64.store8 (i32.add (local.get $to) (local.get $width)) (local.get $value))
      (local.set $value (i64.shr_u (local.get $value) (i64.const 8)))
      (br_if $next (local.get $width))))

  (func $byte (param $byte i32)
    (call $need (i32.const 1))
    (i32.store8 (i32.add (global.get $out) (global.get $used)) (local.get $byte))
    (global.set $used (i32.add (global.get $used) (i32.const 1))))

  (func $run (param $major i32) (param $from i32) (param $length i32) (result i32)
    (local $to i32)
    (call $head (local.get $major) (i64.extend_i32_u (local.get $length)))
    (call $need (local.get $length))
    (local.set $to (i32.add (global.get $out) (global.get $used)))
    (memory.copy (local.get $to) (local.get $from) (local.get $length))
    (global.set $used (i32.add (global.get $used) (local.get $length)))
    (local.get $to))

  ;; QuickJS writes half a surrogate pair as three bytes that are no UTF-8: ED A0..BF 80..BF. Each becomes U+FFFD, of
  ;; three bytes too, as TextEncoder does. Answers whether there was one.
  (func $mend_surrogates (param $at i32) (param $length i32) (result i32)
    (local $end i32)
    (local $found i32)
    (local.set $end (i32.add (local.get $at) (local.get $length)))
    (block $done
      (loop $next
        (block $by_byte
          (br_if $by_byte (i32.gt_u (i32.add (local.get $at) (i32.const 8)) (local.get $end)))
          (br_if $by_byte
            (i64.ne (i64.and (i64.load (local.get $at)) (i64.const 0x8080_8080_8080_8080)) (i64.const 0)))
          (local.set $at (i32.add (local.get $at) (i32.const 8)))
          (br $next))
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0xed))
          (then
            (if (i32.ge_u (i32.load8_u offset=1 (local.get $at)) (i32.const 0xa0))
              (then
                (i32.store16 (local.get $at) (i32.const 0xbfef))
                (i32.store8 offset=2 (local.get $at) (i32.const 0xbd))
                (local.set $found (i32.const 1))))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $found))

  (func $encode_text (param $value i64) (result i32)
    (local $text i32)
    (local $length i32)
    (local.set $text (call $to_text (global.get $context) (global.get $scratch) (local.get $value) (i32.const 0)))
    (if (i32.eqz (local.get $text)) (then (return (i32.const 1))))
    (local.set $length (i32.load (global.get $scratch)))
    (drop (call $mend_surrogates
      (call $run (i32.const 0x60) (local.get $text) (local.get $length)) (local.get $length)))
    (call $free_text (global.get $context) (local.get $text))
    (i32.const 0))

  (func $encode_integer (param $value i64)
    (if (i64.ge_s (local.get $value) (i64.const 0))
      (then (call $head (i32.const 0x00) (local.get $value)))
      (else (call $head (i32.const 0x20) (i64.sub (i64.const -1) (local.get $value))))))

  ;; A number that is whole and exact is an integer, as JSON.stringify shows it; -0 is 0 for the same reason.
  (func $encode_float (param $value f64)
    (if (i32.and
          (f64.eq (f64.trunc (local.get $value)) (local.get $value))
          (f64.le (f64.abs (local.get $value)) (f64.const 9007199254740991)))
      (then
        (call $encode_integer (i64.trunc_f64_s (local.get $value)))
        (return)))
    (call $byte (i32.const 0xfb))
    (call $need (i32.const 8))
    (call $store_big_endian (i32.add (global.get $out) (global.get $used))
      (i64.reinterpret_f64 (local.get $value)) (i32.const 8))
    (global.set $used (i32.add (global.get $used) (i32.const 8))))

  (func $encode_big (param $value i64) (result i32)
    (local $parts i64)
    (local.set $parts (call $call_one (global.get $on_big) (local.get $value)))
    (if (call $is_exception (local.get $parts)) (then (return (i32.const 1))))
    (if (call $to_big_int64 (global.get $context) (i32.add (global.get $scratch) (i32.const 8))
          (call $get_index (global.get $context) (local.get $parts) (i32.const 1)))
      (then (return (i32.const 1))))
    (call $head
      (i32.wrap_i64 (call $get_index (global.get $context) (local.get $parts) (i32.const 0)))
      (i64.load offset=8 (global.get $scratch)))
    (i32.const 0))

  (func $encode (param $value i64) (param $depth i32) (result i32)
    (local $tag i32)
    (local.set $tag (i32.wrap_i64 (i64.shr_s (local.get $value) (i64.const 32))))
    (block $float (block $not_plain (block $object (block $text (block $big (block $null (block $bool (block $int
      (br_table
        $big $not_plain $text $text $not_plain $not_plain $not_plain $not_plain $object ;; -9 .. -1
        $int $bool $null $null $not_plain $not_plain $not_plain $big ;; 0 .. 7
        $float (i32.add (local.get $tag) (i32.const 9))))
      ;; $int
      (call $encode_integer (i64.extend_i32_s (i32.wrap_i64 (local.get $value))))
      (return (i32.const 0)))
      ;; $bool
      (call $byte (i32.add (i32.const 0xf4) (i32.wrap_i64 (local.get $value))))
      (return (i32.const 0)))
      ;; $null, and undefined where something must stand
      (call $byte (i32.const 0xf6))
      (return (i32.const 0)))
      ;; $big
      (return (call $encode_big (local.get $value))))
      ;; $text
      (return (call $encode_text (local.get $value))))
      ;; $object
      (return (call $encode_object (local.get $value) (local.get $depth))))
      ;; $not_plain
      (return (i32.const 2)))
    ;; $float
    (call $encode_float (f64.reinterpret_i64 (i64.add (local.get $value) (i64.const 0x7ff8_000a_0000_0000))))
    (i32.const 0))

  (func $encode_object (param $value i64) (param $depth i32) (result i32)
    (local $class i32)
    (local $bytes i32)
    (local.set $class (call $get_class_id (local.get $value)))
    ;; JS_CLASS_OBJECT, JS_CLASS_ARRAY
    (if (i32.eq (local.get $class) (i32.const 1))
      (then (return (call $encode_map (local.get $value) (local.get $depth)))))
    (if (i32.eq (local.get $class) (i32.const 2))
      (then (return (call $encode_array (local.get $value) (local.get $depth)))))
    ;; What was detached has no bytes, whatever stood here.
    (i32.store (global.get $scratch) (i32.const 0))
    ;; JS_TYPED_ARRAY_UINT8C, JS_TYPED_ARRAY_UINT8
    (local.set $class (call $get_typed_array_type (local.get $value)))
    (if (i32.or (i32.eqz (local.get $class)) (i32.eq (local.get $class) (i32.const 2)))
      (then
        (local.set $bytes (call $get_uint8array (global.get $context) (global.get $scratch) (local.get $value))))
      (else
        (if (i32.eqz (call $is_array_buffer (local.get $value))) (then (return (i32.const 2))))
        (local.set $bytes (call $get_array_buffer (global.get $context) (global.get $scratch) (local.get $value)))))
    (drop (call $run (i32.const 0x40) (local.get $bytes) (i32.load (global.get $scratch))))
    (i32.const 0))

  (func $encode_array (param $value i64) (param $depth i32) (result i32)
    (local $length i32)
    (local $index i32)
    (local $item i64)
    (local $code i32)
    (if (i32.ge_u (local.get $depth) (i32.const 64)) (then (return (i32.const 2))))
    (if (call $get_length (global.get $context) (local.get $value) (i32.add (global.get $scratch) (i32.const 8)))
      (then (return (i32.const 1))))
    (local.set $length (i32.load offset=8 (global.get $scratch)))
    (call $head (i32.const 0x80) (i64.extend_i32_u (local.get $length)))
    (loop $more
      (if (i32.ge_u (local.get $index) (local.get $length)) (then (return (i32.const 0))))
      (local.set $item (call $get_index (global.get $context) (local.get $value) (local.get $index)))
      (if (call $is_exception (local.get $item)) (then (return (i32.const 1))))
      (local.set $code (call $encode (local.get $item) (i32.add (local.get $depth) (i32.const 1))))
      (if (local.get $code) (then (return (local.get $code))))
      (call $free_value (global.get $context) (local.get $item))
      (local.set $index (i32.add (local.get $index) (i32.const 1)))
      (br $more))
    (unreachable))

  (func $encode_key (param $atom i32) (result i32)
    (local $text i32)
    (local $length i32)
    (local.set $text (call $atom_to_text (global.get $context) (global.get $scratch) (local.get $atom)))
    (if (i32.eqz (local.get $text)) (then (return (i32.const 1))))
    (local.set $length (i32.load (global.get $scratch)))
    ;; Two mended keys could be one.
    (if (call $mend_surrogates
          (call $run (i32.const 0x60) (local.get $text) (local.get $length)) (local.get $length))
      (then (return (i32.const 2))))
    (call $free_text (global.get $context) (local.get $text))
    (i32.const 0))

  (func $encode_map (param $value i64) (param $depth i32) (result i32)
    (local $names i32)
    (local $count i32)
    (local $index i32)
    (local $atom i32)
    (local $item i64)
    (local $code i32)
    (local $written i32)
    (local $patch i32)
    (if (i32.ge_u (local.get $depth) (i32.const 64)) (then (return (i32.const 2))))
    (local.set $item (call $get_prototype (global.get $context) (local.get $value)))
    (call $free_value (global.get $context) (local.get $item))
    (if (i32.and
          (i64.ne (local.get $item) (global.get $plain_prototype))
          (i64.ne (local.get $item) (i64.const 0x2_0000_0000)))
      (then (return (i32.const 2))))
    (if (call $get_own_property_names (global.get $context)
          (i32.add (global.get $scratch) (i32.const 4)) (global.get $scratch) (local.get $value) (i32.const 17))
      (then (return (i32.const 1))))
    (local.set $count (i32.load (global.get $scratch)))
    (local.set $names (i32.load offset=4 (global.get $scratch)))
    ;; How many there are is known at the end, because undefined is left out: the room for the number stays as it is.
    (local.set $patch (global.get $used))
    (call $head (i32.const 0xa0) (i64.extend_i32_u (local.get $count)))
    (block $done
      (loop $more
        (br_if $done (i32.ge_u (local.get $index) (local.get $count)))
        ;; { is_enumerable, atom }
        (local.set $atom (i32.load offset=4 (i32.add (local.get $names) (i32.shl (local.get $index) (i32.const 3)))))
        (local.set $index (i32.add (local.get $index) (i32.const 1)))
        (local.set $item (call $get_property (global.get $context) (local.get $value) (local.get $atom)))
        (if (call $is_exception (local.get $item)) (then (return (i32.const 1))))
        (br_if $more (i64.eq (local.get $item) (i64.const 0x3_0000_0000)))
        (local.set $code (call $encode_key (local.get $atom)))
        (if (local.get $code) (then (return (local.get $code))))
        (local.set $code (call $encode (local.get $item) (i32.add (local.get $depth) (i32.const 1))))
        (if (local.get $code) (then (return (local.get $code))))
        (call $free_value (global.get $context) (local.get $item))
        (local.set $written (i32.add (local.get $written) (i32.const 1)))
        (br $more)))
    (call $free_property_names (global.get $context) (local.get $names) (local.get $count))
    (if (i32.ne (local.get $written) (local.get $count))
      (then (call $patch_count (local.get $patch) (local.get $count) (local.get $written))))
    (i32.const 0))

  (func $patch_count (param $patch i32) (param $count i32) (param $written i32)
    (local $to i32)
    (local.set $to (i32.add (global.get $out) (local.get $patch)))
    (if (i32.lt_u (local.get $count) (i32.const 24))
      (then
        (i32.store8 (local.get $to) (i32.or (i32.const 0xa0) (local.get $written)))
        (return)))
    (call $store_big_endian (i32.add (local.get $to) (i32.const 1)) (i64.extend_i32_u (local.get $written))
      (if (result i32) (i32.lt_u (local.get $count) (i32.const 256))
        (then (i32.const 1))
        (else (select (i32.const 2) (i32.const 4) (i32.lt_u (local.get $count) (i32.const 0x1_0000)))))))

