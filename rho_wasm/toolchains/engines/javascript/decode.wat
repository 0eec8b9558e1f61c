  ;; ---- calling into JavaScript

  (func $is_exception (param $value i64) (result i32)
    (i64.eq (local.get $value) (i64.const 0x6_0000_0000)))

  (func $call_one (param $function i64) (param $argument i64) (result i64)
    (i64.store offset=16 (global.get $scratch) (local.get $argument))
    (call $js_call (global.get $context) (local.get $function) (i64.const 0x3_0000_0000)
      (i32.const 1) (i32.add (global.get $scratch) (i32.const 16))))

  (func $run_jobs
    (loop $more
      (br_if $more (call $execute_pending_job (global.get $runtime) (global.get $scratch)))))

  ;; ---- plain CBOR to values

  (func $malformed (result i64)
    (global.set $at (global.get $end))
    (call $call_one (global.get $on_malformed) (i64.const 0x3_0000_0000)))

  (func $half (param $bits i32) (result f64)
    (local $exponent i32)
    (local $magnitude f64)
    (local.set $exponent (i32.and (i32.shr_u (local.get $bits) (i32.const 10)) (i32.const 31)))
    (if (i32.eqz (local.get $exponent))
      (then ;; subnormal: in units of 2^-24
        (local.set $magnitude
          (f64.mul (f64.convert_i32_u (i32.and (local.get $bits) (i32.const 0x3ff))) (f64.const 0x1p-24))))
      (else
        (local.set $magnitude
          (f64.reinterpret_i64
            (i64.or
              (i64.shl
                (i64.extend_i32_u
                  (select (i32.const 0x7ff) (i32.add (local.get $exponent) (i32.const 1008))
                    (i32.eq (local.get $exponent) (i32.const 31))))
                (i64.const 52))
              (i64.shl (i64.extend_i32_u (i32.and (local.get $bits) (i32.const 0x3ff))) (i64.const 42)))))))
    (f64.copysign (local.get $magnitude)
      (f64.reinterpret_i64 (i64.shl (i64.extend_i32_u (local.get $bits)) (i64.const 48)))))

  (func $big_endian (param $at i32) (param $width i32) (result i64)
    (local $value i64)
    (loop $next
      (local.set $value
        (i64.or (i64.shl (local.get $value) (i64.const 8)) (i64.load8_u (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (local.set $width (i32.sub (local.get $width) (i32.const 1)))
      (br_if $next (local.get $width)))
    (local.get $value))

  ;; The argument of a head whose first byte is $first, read past at $at. Lengths past the end show themselves later; where
  ;; the head itself is cut off, $at is then beyond the end, which nothing well-formed ends at.
  (func $argument (param $first i32) (result i64)
    (local $width i32)
    (local $value i64)
    (local.set $first (i32.and (local.get $first) (i32.const 31)))
    (if (i32.lt_u (local.get $first) (i32.const 24)) (then (return (i64.extend_i32_u (local.get $first)))))
    (local.set $width (i32.shl (i32.const 1) (i32.sub (local.get $first) (i32.const 24))))
    (if (i32.or (i32.gt_u (local.get $first) (i32.const 27))
          (i32.lt_u (i32.sub (global.get $end) (global.get $at)) (local.get $width)))
      (then
        (global.set $at (i32.add (global.get $end) (i32.const 1)))
        (return (i64.const -1))))
    (local.set $value (call $big_endian (global.get $at) (local.get $width)))
    (global.set $at (i32.add (global.get $at) (local.get $width)))
    (local.get $value))

  ;; Whether there is UTF-8 from $at to $end: nothing overlong, no surrogates, nothing over U+10FFFF.
  (func $is_utf8 (param $at i32) (param $end i32) (result i32)
    (local $first i32)
    (local $second i32)
    (local $more i32)
    (block $bad
      (loop $next
        ;; Most text is ASCII: eight at once.
        (block $not_ascii
          (loop $ascii
            (br_if $not_ascii (i32.lt_u (i32.sub (local.get $end) (local.get $at)) (i32.const 8)))
            (br_if $not_ascii
              (i64.ne (i64.and (i64.load (local.get $at)) (i64.const 0x8080_8080_8080_8080)) (i64.const 0)))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br $ascii)))
        (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (i32.const 1))))
        (local.set $first (i32.load8_u (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $first) (i32.const 0x80)))
        (br_if $bad (i32.gt_u (i32.sub (local.get $first) (i32.const 0xc2)) (i32.const 0x32)))
        (local.set $more
          (i32.add
            (i32.const 1)
            (i32.add (i32.ge_u (local.get $first) (i32.const 0xe0)) (i32.ge_u (local.get $first) (i32.const 0xf0)))))
        (br_if $bad (i32.gt_u (local.get $more) (i32.sub (local.get $end) (local.get $at))))
        (local.set $second (i32.load8_u (local.get $at)))
        (br_if $bad
          (i32.and (i32.eq (local.get $first) (i32.const 0xe0)) (i32.lt_u (local.get $second) (i32.const 0xa0))))
        (br_if $bad
          (i32.and (i32.eq (local.get $first) (i32.const 0xed)) (i32.gt_u (local.get $second) (i32.const 0x9f))))
        (br_if $bad
          (i32.and (i32.eq (local.get $first) (i32.const 0xf0)) (i32.lt_u (local.get $second) (i32.const 0x90))))
        (br_if $bad
          (i32.and (i32.eq (local.get $first) (i32.const 0xf4)) (i32.gt_u (local.get $second) (i32.const 0x8f))))
        (loop $rest
          (br_if $bad (i32.ne (i32.and (i32.load8_u (local.get $at)) (i32.const 0xc0)) (i32.const 0x80)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br_if $rest (local.tee $more (i32.sub (local.get $more) (i32.const 1)))))
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

  (func $decode (param $depth i32) (result i64)
    (local $first i32)
    (local $value i64)
    (if (i32.ge_u (global.get $at) (global.get $end)) (then (return (call $malformed))))
    (local.set $first (i32.load8_u (global.get $at)))
    (global.set $at (i32.add (global.get $at) (i32.const 1)))
    (if (i32.gt_u (i32.and (local.get $first) (i32.const 31)) (i32.const 27)) (then (return (call $malformed))))
    (local.set $value (call $argument (local.get $first)))
    (block $special (block $tag (block $map (block $array (block $text (block $bytes (block $negative (block $unsigned
      (br_table $unsigned $negative $bytes $text $array $map $tag $special
        (i32.shr_u (local.get $first) (i32.const 5))))
      ;; $unsigned
      (if (i64.le_u (local.get $value) (i64.const 0x7fff_ffff)) (then (return (local.get $value))))
      (if (i64.le_u (local.get $value) (i64.const 0x1f_ffff_ffff_ffff))
        (then (return (call $new_number (global.get $context) (f64.convert_i64_u (local.get $value))))))
      (return (call $new_big_uint (global.get $context) (local.get $value))))
      ;; $negative
      (if (i64.le_u (local.get $value) (i64.const 0x1f_ffff_ffff_fffe))
        (then
          (return (call $new_number (global.get $context)
            (f64.convert_i64_s (i64.sub (i64.const -1) (local.get $value)))))))
      (return (call $call_one (global.get $on_negative)
        (call $new_big_uint (global.get $context) (local.get $value)))))
      ;; $bytes
      (return (call $decode_run (local.get $value) (i32.const 0))))
      ;; $text
      (return (call $decode_run (local.get $value) (i32.const 1))))
      ;; $array: nothing nests deeper than 64.
      (if (i32.ge_u (local.get $depth) (i32.const 64)) (then (return (call $malformed))))
      (return (call $decode_array (local.get $value) (local.get $depth))))
      ;; $map
      (if (i32.ge_u (local.get $depth) (i32.const 64)) (then (return (call $malformed))))
      (return (call $decode_map (local.get $value) (local.get $depth))))
      ;; $tag: no tags in plain data
      (return (call $malformed)))
    ;; $special
    (call $decode_special (i32.and (local.get $first) (i32.const 31)) (local.get $value)))

  (func $decode_special (param $kind i32) (param $value i64) (result i64)
    (if (i32.eq (local.get $kind) (i32.const 20)) (then (return (i64.const 0x1_0000_0000))))
    (if (i32.eq (local.get $kind) (i32.const 21)) (then (return (i64.const 0x1_0000_0001))))
    (if (i32.eq (local.get $kind) (i32.const 22)) (then (return (i64.const 0x2_0000_0000))))
    (if (i32.eq (local.get $kind) (i32.const 25))
      (then (return (call $new_number (global.get $context) (call $half (i32.wrap_i64 (local.get $value)))))))
    (if (i32.eq (local.get $kind) (i32.const 26))
      (then
        (return (call $new_number (global.get $context)
          (f64.promote_f32 (f32.reinterpret_i32 (i32.wrap_i64 (local.get $value))))))))
    (if (i32.eq (local.get $kind) (i32.const 27))
      (then (return (call $new_number (global.get $context) (f64.reinterpret_i64 (local.get $value))))))
    (call $malformed))

  (func $decode_run (param $length i64) (param $text i32) (result i64)
    (local $start i32)
    (local.set $start (global.get $at))
    (if (i64.gt_u (local.get $length) (i64.extend_i32_u (i32.sub (global.get $end) (local.get $start))))
      (then (return (call $malformed))))
    (global.set $at (i32.add (local.get $start) (i32.wrap_i64 (local.get $length))))
    (if (result i64) (local.get $text)
      (then
        (if (i32.eqz (call $is_utf8 (local.get $start) (global.get $at))) (then (return (call $malformed))))
        (call $new_string (global.get $context) (local.get $start) (i32.wrap_i64 (local.get $length))))
      (else (call $new_uint8array (global.get $context) (local.get $start) (i32.wrap_i64 (local.get $length))))))

  (func $decode_array (param $length i64) (param $depth i32) (result i64)
    (local $items i32)
    (local $next i32)
    (local $stop i32)
    (local $item i64)
    ;; An item is a byte or more, so the length is bounded by what is there.
    (if (i64.gt_u (local.get $length) (i64.extend_i32_u (i32.sub (global.get $end) (global.get $at))))
      (then (return (call $malformed))))
    (if (i64.eqz (local.get $length)) (then (return (call $new_array (global.get $context)))))
    (local.set $items (call $malloc (i32.shl (i32.wrap_i64 (local.get $length)) (i32.const 3))))
    (if (i32.eqz (local.get $items)) (then (unreachable)))
    (local.set $next (local.get $items))
    (local.set $stop (i32.add (local.get $items) (i32.shl (i32.wrap_i64 (local.get $length)) (i32.const 3))))
    (loop $more
      (local.set $item (call $decode (i32.add (local.get $depth) (i32.const 1))))
      (if (call $is_exception (local.get $item)) (then (return (local.get $item))))
      (i64.store (local.get $next) (local.get $item))
      (local.set $next (i32.add (local.get $next) (i32.const 8)))
      (br_if $more (i32.lt_u (local.get $next) (local.get $stop))))
    (local.set $item
      (call $new_array_from (global.get $context) (i32.wrap_i64 (local.get $length)) (local.get $items)))
    (call $free (local.get $items))
    (local.get $item))

  (func $decode_map (param $length i64) (param $depth i32) (result i64)
    (local $map i64)
    (local $item i64)
    (local $first i32)
    (local $size i64)
    (local $key i32)
    (local $last i32)
    (local $last_size i32)
    (local.set $last_size (i32.const -1))
    (local.set $map (call $new_object (global.get $context)))
    (loop $more
      (if (i64.eqz (local.get $length)) (then (return (local.get $map))))
      (if (i32.ge_u (global.get $at) (global.get $end)) (then (return (call $malformed))))
      (local.set $first (i32.load8_u (global.get $at)))
      (global.set $at (i32.add (global.get $at) (i32.const 1)))
      (local.set $size (call $argument (local.get $first)))
      (if (i32.or
            (i32.ne (i32.shr_u (local.get $first) (i32.const 5)) (i32.const 3))
            (i64.gt_u (local.get $size) (i64.extend_i32_u (i32.sub (global.get $end) (global.get $at)))))
        (then (return (call $malformed))))
      (if (i32.eqz
            (i32.and
              (call $comes_after
                (local.get $last) (local.get $last_size) (global.get $at) (i32.wrap_i64 (local.get $size)))
              (call $is_utf8 (global.get $at) (i32.add (global.get $at) (i32.wrap_i64 (local.get $size))))))
        (then (return (call $malformed))))
      (local.set $last (global.get $at))
      (local.set $last_size (i32.wrap_i64 (local.get $size)))
      (local.set $key (call $new_atom (global.get $context) (global.get $at) (i32.wrap_i64 (local.get $size))))
      (global.set $at (i32.add (global.get $at) (i32.wrap_i64 (local.get $size))))
      (local.set $item (call $decode (i32.add (local.get $depth) (i32.const 1))))
      (if (call $is_exception (local.get $item)) (then (return (local.get $item))))
      ;; Defined, not set: a key "__proto__" is then a key like any other.
      (if (i32.lt_s
            (call $define_property (global.get $context)
              (local.get $map) (local.get $key) (local.get $item) (i32.const 7))
            (i32.const 0))
        (then (return (i64.const 0x6_0000_0000))))
      (call $free_atom (global.get $context) (local.get $key))
      (local.set $length (i64.sub (local.get $length) (i64.const 1)))
      (br $more))
    (unreachable))

  (func $decode_all (param $start i32) (param $length i32) (result i64)
    (local $value i64)
    (global.set $at (local.get $start))
    (global.set $end (i32.add (local.get $start) (local.get $length)))
    (local.set $value (call $decode (i32.const 0)))
    (if (i32.and (i32.eqz (call $is_exception (local.get $value))) (i32.ne (global.get $at) (global.get $end)))
      (then (local.set $value (call $malformed))))
    (global.set $at (i32.const 0))
    (global.set $end (i32.const 0))
    (local.get $value))

