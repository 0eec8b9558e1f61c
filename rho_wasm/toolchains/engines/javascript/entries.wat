  ;; ---- the ways in

  (func (export "rho:boot")
    (param $prelude i32) (param $length i32) (param $module_name i32) (param $global_name i32)
    (param $names i32) (param $names_end i32) (param $native i32)
    (param $stack_limit i32) (param $stack_low i32) (param $stack_high i32)
    (result i32)  ;; The runtime.
    (local $functions i64)
    (local $global i64)
    (local $which i32)
    (global.set $stack_low (local.get $stack_low))
    (global.set $stack_high (local.get $stack_high))
    (global.set $scratch (call $malloc (i32.const 32)))
    (global.set $runtime (call $new_runtime))
    ;; Built for WASI, the reactor checks the stack against a limit that its API always sets to 0: it is set here.
    (i32.store offset=128 (global.get $runtime) (local.get $stack_limit))
    (call $name_first (call $new_raw_context (global.get $runtime)) (local.get $names) (local.get $names_end))
    (global.set $context (call $new_context (global.get $runtime)))
    (local.set $functions (call $new_array (global.get $context)))
    (loop $more
      (drop (call $set_index (global.get $context) (local.get $functions) (local.get $which)
        (call $new_c_function (global.get $context) (local.get $native) (local.get $module_name)
          (i32.const 2) (i32.const 1) (local.get $which))))
      (local.set $which (i32.add (local.get $which) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $which) (i32.const 12))))
    (local.set $global (call $get_global_object (global.get $context)))
    (drop (call $set_property_str (global.get $context) (local.get $global) (local.get $global_name)
      (local.get $functions)))
    (global.set $plain_prototype
      (call $get_prototype (global.get $context) (call $new_object (global.get $context))))
    (local.set $functions
      (call $eval (global.get $context) (local.get $prelude) (local.get $length) (local.get $module_name)
        (i32.const 1)))
    (call $run_jobs)
    (if (i32.ne (call $promise_state (global.get $context) (local.get $functions)) (i32.const 1))
      (then (unreachable)))
    ;; A collection writes into every object, and so into every page of the snapshot: not in a short call.
    (call $run_gc (global.get $runtime))
    (call $set_gc_threshold (global.get $runtime) (i32.const 0x100_0000))
    (global.set $random (i64.const 0))
    (global.get $runtime))

  ;; Makes the names that tools use most before anything else does, one beside the other. Using a name counts it, in
  ;; its page; made where the engine comes to them they lie in many.
  (func $name_first (param $context i32) (param $at i32) (param $end i32)
    (local $start i32)
    (local.set $start (local.get $at))
    (loop $more
      (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x20))
        (then
          (drop (call $new_atom (local.get $context) (local.get $start)
            (i32.sub (local.get $at) (local.get $start))))
          (local.set $start (i32.add (local.get $at) (i32.const 1)))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $at) (local.get $end)))))

  (func (export "rho_alloc") (param $size i32) (result i32)
    (call $malloc (local.get $size)))

  ;; Whatever is in use for a while is freed here, because what loading leaves behind is every call's to copy.
  (func (export "rho_load") (param $request i32) (param $length i32) (result i64)
    (local $given i64)
    (local $answer i64)
    (local $packed i64)
    (local.set $given (call $decode_all (local.get $request) (local.get $length)))
    (memory.fill (local.get $request) (i32.const 0) (local.get $length))
    (call $free (local.get $request))
    (local.set $packed (global.get $last_load))
    (if (i32.eqz (call $is_exception (local.get $given)))
      (then
        (local.set $answer (call $call_one (global.get $on_load) (local.get $given)))
        (call $free_value (global.get $context) (local.get $given))
        (if (i32.eqz (call $is_exception (local.get $answer)))
          (then
            (if (i32.eqz (call $encode (local.get $answer) (i32.const 0)))
              (then (local.set $packed (call $taken))))
            (call $free_value (global.get $context) (local.get $answer))))))
    (global.set $module (i32.const 0))
    (global.set $random (i64.const 0))
    (global.set $out (i32.const 0))
    (global.set $used (i32.const 0))
    (global.set $room (i32.const 0))
    (call $clear_spare)
    (memory.fill (global.get $stack_low) (i32.const 0)
      (i32.sub (global.get $stack_high) (global.get $stack_low)))
    (local.get $packed))

  ;; Zeros over what was freed above all that is kept.
  (func $clear_spare
    (local $spare i32)
    (local.set $spare (call $malloc (i32.const 0x1000)))
    (if (i32.eqz (local.get $spare)) (then (return)))
    (memory.fill (local.get $spare) (i32.const 0) (i32.const 0x1000))
    (call $free (local.get $spare)))

  (func (export "rho_call") (param $request i32) (param $length i32) (result i64)
    (local $answer i64)
    (local $state i32)
    (local $code i32)
    (local.set $answer (call $decode_all (local.get $request) (local.get $length)))
    (if (call $is_exception (local.get $answer)) (then (return (call $raised))))
    (local.set $answer (call $call_one (global.get $on_call) (local.get $answer)))
    (if (call $is_exception (local.get $answer)) (then (return (call $raised))))
    (call $run_jobs)
    (local.set $state (call $promise_state (global.get $context) (local.get $answer)))
    (if (i32.ge_s (local.get $state) (i32.const 0))
      (then
        ;; on_raised of undefined: it never settled
        (if (i32.eqz (local.get $state)) (then (return (call $told (i64.const 0x3_0000_0000)))))
        (local.set $answer (call $promise_result (global.get $context) (local.get $answer)))
        (if (i32.eq (local.get $state) (i32.const 2)) (then (return (call $told (local.get $answer)))))))
    (local.set $code (call $encode (local.get $answer) (i32.const 0)))
    (if (i32.eqz (local.get $code)) (then (return (call $taken))))
    (if (i32.eq (local.get $code) (i32.const 2))
      (then (drop (call $call_one (global.get $on_not_plain) (local.get $answer)))))
    (call $raised))

  ;; The answer that tells of the exception which waits.
  (func $raised (result i64)
    (call $told (call $get_exception (global.get $context))))

  (func $told (param $error i64) (result i64)
    (local $answer i64)
    (local.set $answer (call $call_one (global.get $on_raised) (local.get $error)))
    (if (call $is_exception (local.get $answer)) (then (return (global.get $last_call))))
    (global.set $used (i32.const 0))
    (if (call $encode (local.get $answer) (i32.const 0)) (then (return (global.get $last_call))))
    (call $taken))
)
