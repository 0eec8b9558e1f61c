  ;; ---- what rho.js is given: functions of (context, this, argument count, arguments, which one)

  (func (export "rho:native")
    (param $context i32) (param $this i64) (param $count i32) (param $arguments i32) (param $which i32) (result i64)
    (local $first i64)
    (local $second i64)
    (local.set $first (i64.load (local.get $arguments)))
    (local.set $second (i64.load offset=8 (local.get $arguments)))
    (block $upper (block $lower (block $words (block $random (block $result (block $state (block $jobs
    (block $namespace (block $evaluate (block $ask (block $log (block $keep
      (br_table $keep $log $ask $evaluate $namespace $jobs $state $result $random $words
        $lower $upper (local.get $which)))
      ;; keep(slot, value)
      (call $keep (i32.wrap_i64 (local.get $first)) (call $dup_value (global.get $context) (local.get $second)))
      (return (i64.const 0x3_0000_0000)))
      ;; log(level, text)
      (return (call $log_text (i32.wrap_i64 (local.get $first)) (local.get $second))))
      ;; ask(request) -> reply
      (return (call $ask (local.get $first))))
      ;; evaluate(source, file) -> the module's promise
      (return (call $evaluate (local.get $first) (local.get $second))))
      ;; namespace() of the module evaluated last
      (return (call $get_module_namespace (global.get $context) (global.get $module))))
      ;; jobs()
      (call $run_jobs)
      (return (i64.const 0x3_0000_0000)))
      ;; state(promise) -> 0 pending, 1 fulfilled, 2 rejected
      (return (i64.extend_i32_u (call $promise_state (global.get $context) (local.get $first)))))
    ;; result(promise)
    (return (call $promise_result (global.get $context) (local.get $first))))
    ;; random()
    (return (call $next_random)))
    ;; words(text) -> array, or undefined
    (return (call $words_of (local.get $first))))
    ;; this.toLowerCase()
    (return (call $recased (local.get $this) (i32.const 0x41) (global.get $to_lower))))
    ;; this.toUpperCase()
    (call $recased (local.get $this) (i32.const 0x61) (global.get $to_upper)))

  ;; Text of ASCII with the 26 letters from $first on in the other case; what is anything else, $slowly sees to.
  (func $recased (param $this i64) (param $first i32) (param $slowly i64) (result i64)
    (local $text i32)
    (local $length i32)
    (local $out i32)
    (local $at i32)
    (local $byte i32)
    (local $result i64)
    (block $slow
      ;; A string is of the tags -7 and -6.
      (br_if $slow (i64.gt_u
        (i64.add (i64.shr_s (local.get $this) (i64.const 32)) (i64.const 7)) (i64.const 1)))
      (local.set $text (call $to_text (global.get $context) (global.get $scratch) (local.get $this) (i32.const 0)))
      (if (i32.eqz (local.get $text)) (then (return (i64.const 0x6_0000_0000))))
      (local.set $length (i32.load (global.get $scratch)))
      (local.set $out (call $malloc (local.get $length)))
      (block $done
        (loop $more
          (br_if $done (i32.or (i32.ge_u (local.get $at) (local.get $length)) (i32.eqz (local.get $out))))
          (local.set $byte (i32.load8_u (i32.add (local.get $text) (local.get $at))))
          (br_if $done (i32.ge_u (local.get $byte) (i32.const 0x80)))
          (i32.store8 (i32.add (local.get $out) (local.get $at))
            (i32.xor (local.get $byte)
              (i32.shl (i32.lt_u (i32.sub (local.get $byte) (local.get $first)) (i32.const 26)) (i32.const 5))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $more)))
      (if (i32.eq (local.get $at) (local.get $length))
        (then (local.set $result (call $new_string (global.get $context) (local.get $out) (local.get $length)))))
      (call $free (local.get $out))
      (call $free_text (global.get $context) (local.get $text))
      (if (i32.eq (local.get $at) (local.get $length)) (then (return (local.get $result)))))
    (call $js_call (global.get $context) (local.get $slowly) (local.get $this) (i32.const 0) (i32.const 0)))

  ;; What text.split(/\s+/) is, for text of ASCII alone; undefined for any other.
  (func $words_of (param $value i64) (result i64)
    (local $text i32)
    (local $end i32)
    (local $at i32)
    (local $start i32)
    (local $words i32)
    (local $next i32)
    (local $byte i32)
    (local $array i64)
    (local.set $text (call $to_text (global.get $context) (global.get $scratch) (local.get $value) (i32.const 0)))
    (if (i32.eqz (local.get $text)) (then (return (i64.const 0x6_0000_0000))))
    (local.set $end (i32.add (local.get $text) (i32.load (global.get $scratch))))
    ;; Every second byte may end a word: 8 bytes for each word, and one word more than there are blanks.
    (local.set $words (call $malloc
      (i32.add (i32.shl (i32.load (global.get $scratch)) (i32.const 2)) (i32.const 16))))
    (if (i32.eqz (local.get $words)) (then (unreachable)))
    (local.set $next (local.get $words))
    (local.set $at (local.get $text))
    (local.set $start (local.get $text))
    (block $done
      (loop $more
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $byte (i32.load8_u (local.get $at)))
        (if (i32.ge_u (local.get $byte) (i32.const 0x80)) (then (return (i64.const 0x3_0000_0000))))
        (if (call $is_blank (local.get $byte))
          (then
            (local.set $next (call $word (local.get $start) (local.get $at) (local.get $next)))
            (loop $blanks
              (local.set $at (i32.add (local.get $at) (i32.const 1)))
              (br_if $blanks (i32.and
                (i32.lt_u (local.get $at) (local.get $end))
                (call $is_blank (i32.load8_u (local.get $at))))))
            (local.set $start (local.get $at))
            (br $more)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $more)))
    (local.set $next (call $word (local.get $start) (local.get $end) (local.get $next)))
    (local.set $array (call $new_array_from (global.get $context)
      (i32.shr_u (i32.sub (local.get $next) (local.get $words)) (i32.const 3)) (local.get $words)))
    (call $free (local.get $words))
    (call $free_text (global.get $context) (local.get $text))
    (local.get $array))

  (func $is_blank (param $byte i32) (result i32)
    (i32.or (i32.eq (local.get $byte) (i32.const 0x20))
      (i32.lt_u (i32.sub (local.get $byte) (i32.const 9)) (i32.const 5))))

  (func $word (param $start i32) (param $end i32) (param $to i32) (result i32)
    (i64.store (local.get $to)
      (call $new_string (global.get $context) (local.get $start) (i32.sub (local.get $end) (local.get $start))))
    (i32.add (local.get $to) (i32.const 8)))

  ;; Math.random, seeded by the host in each call: the engine's own is seeded once, at boot. Source: Marsaglia 2003,
  ;; "Xorshift RNGs", the triple 13, 7, 17.
  (func $next_random (result i64)
    (local $state i64)
    (local.set $state (global.get $random))
    (if (i64.eqz (local.get $state))
      (then
        (drop (call $random_get (i32.add (global.get $scratch) (i32.const 8)) (i32.const 8)))
        (local.set $state (i64.or (i64.load offset=8 (global.get $scratch)) (i64.const 1)))))
    (local.set $state (i64.xor (local.get $state) (i64.shl (local.get $state) (i64.const 13))))
    (local.set $state (i64.xor (local.get $state) (i64.shr_u (local.get $state) (i64.const 7))))
    (local.set $state (i64.xor (local.get $state) (i64.shl (local.get $state) (i64.const 17))))
    (global.set $random (local.get $state))
    (call $new_number (global.get $context)
      (f64.mul (f64.convert_i64_u (i64.shr_u (local.get $state) (i64.const 11))) (f64.const 0x1p-53))))

  (func $keep (param $slot i32) (param $value i64)
    (block $upper (block $lower (block $last_load (block $last_call (block $big (block $negative (block $malformed
    (block $not_plain (block $raised (block $call (block $load
      (br_table $load $call $raised $not_plain $malformed $negative $big $last_call $last_load $lower $upper
        (local.get $slot)))
      (global.set $on_load (local.get $value)) (return))
      (global.set $on_call (local.get $value)) (return))
      (global.set $on_raised (local.get $value)) (return))
      (global.set $on_not_plain (local.get $value)) (return))
      (global.set $on_malformed (local.get $value)) (return))
      (global.set $on_negative (local.get $value)) (return))
      (global.set $on_big (local.get $value)) (return))
      (global.set $last_call (call $packed (local.get $value))) (return))
    (global.set $last_load (call $packed (local.get $value))) (return))
    (global.set $to_lower (local.get $value)) (return))
    (global.set $to_upper (local.get $value)))

  ;; The bytes of a value that is known to be plain, in memory of their own.
  (func $packed (param $value i64) (result i64)
    (if (call $encode (local.get $value) (i32.const 0)) (then (unreachable)))
    (call $taken))

  ;; What was written, (pointer << 32) | length; the next writing begins anew.
  (func $taken (result i64)
    (local $packed i64)
    (local.set $packed
      (i64.or (i64.shl (i64.extend_i32_u (global.get $out)) (i64.const 32)) (i64.extend_i32_u (global.get $used))))
    (global.set $out (i32.const 0))
    (global.set $used (i32.const 0))
    (global.set $room (i32.const 0))
    (local.get $packed))

  (func $log_text (param $level i32) (param $value i64) (result i64)
    (local $text i32)
    (local $length i32)
    (local.set $text (call $to_text (global.get $context) (global.get $scratch) (local.get $value) (i32.const 0)))
    (if (i32.eqz (local.get $text)) (then (return (i64.const 0x6_0000_0000))))
    (local.set $length (i32.load (global.get $scratch)))
    (drop (call $mend_surrogates (local.get $text) (local.get $length)))
    (call $host_log (local.get $level) (local.get $text) (local.get $length))
    (call $free_text (global.get $context) (local.get $text))
    (i64.const 0x3_0000_0000))

  (func $ask (param $request i64) (result i64)
    (local $out i32)
    (local $used i32)
    (local $room i32)
    (local $code i32)
    (local $length i32)
    (local $reply i32)
    ;; A getter of an answer may ask while that answer is being written.
    (local.set $out (global.get $out))
    (local.set $used (global.get $used))
    (local.set $room (global.get $room))
    (global.set $out (i32.const 0))
    (global.set $used (i32.const 0))
    (global.set $room (i32.const 0))
    (local.set $code (call $encode (local.get $request) (i32.const 0)))
    (if (i32.eqz (local.get $code))
      (then (local.set $length (call $host_call (global.get $out) (global.get $used)))))
    (call $free (global.get $out))
    (global.set $out (local.get $out))
    (global.set $used (local.get $used))
    (global.set $room (local.get $room))
    (if (i32.eq (local.get $code) (i32.const 2))
      (then (return (call $call_one (global.get $on_not_plain) (local.get $request)))))
    (if (local.get $code) (then (return (i64.const 0x6_0000_0000))))
    (local.set $reply (call $malloc (local.get $length)))
    (if (i32.eqz (local.get $reply)) (then (unreachable)))
    (local.set $length (call $host_take (local.get $reply) (local.get $length)))
    (call $decode_all (local.get $reply) (local.get $length)))

  (func $evaluate (param $source i64) (param $file i64) (result i64)
    (local $text i32)
    (local $length i32)
    (local $name i32)
    (local $compiled i64)
    (local.set $text (call $to_text (global.get $context) (global.get $scratch) (local.get $source) (i32.const 0)))
    (if (i32.eqz (local.get $text)) (then (return (i64.const 0x6_0000_0000))))
    (local.set $length (i32.load (global.get $scratch)))
    (local.set $name (call $to_text (global.get $context) (global.get $scratch) (local.get $file) (i32.const 0)))
    (if (i32.eqz (local.get $name)) (then (return (i64.const 0x6_0000_0000))))
    ;; A module, compiled only: the promise of its evaluation does not lead back to its namespace.
    (local.set $compiled
      (call $eval (global.get $context) (local.get $text) (local.get $length) (local.get $name) (i32.const 0x21)))
    (call $free_text (global.get $context) (local.get $name))
    (call $free_text (global.get $context) (local.get $text))
    (if (call $is_exception (local.get $compiled)) (then (return (local.get $compiled))))
    (global.set $module (i32.wrap_i64 (local.get $compiled)))
    (call $eval_function (global.get $context) (local.get $compiled)))

