;; The ABI (guest_sdk/ABI.md) on top of QuickJS's own C API: plain CBOR to JavaScript values and back, and the four ways
;; in. Everything that may be slow is JavaScript (rho.js), reached through the functions that it handed over by `keep`.
;;
;; Appended to the engine's module, whose exports are the imports of module "engine". A JSValue is an i64: the tag in
;; its high half, a pointer, an int32 or nothing in its low half; any other high half is a float, rotated out of the
;; way of the tags. The tags are facts of this one build, which the engine's self-test holds them to.
;;
;; Nothing is freed on the way of a call: its instance is dropped with all its memory.
(module
  (import "rho" "log" (func $host_log (param i32 i32 i32)))
  (import "rho" "host_call" (func $host_call (param i32 i32) (result i32)))
  (import "rho" "host_take" (func $host_take (param i32 i32) (result i32)))

  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))

  (import "engine" "memory" (memory 1))
  (import "engine" "malloc" (func $malloc (param i32) (result i32)))
  (import "engine" "realloc" (func $realloc (param i32 i32) (result i32)))
  (import "engine" "free" (func $free (param i32)))
  (import "engine" "JS_NewRuntime" (func $new_runtime (result i32)))
  (import "engine" "JS_NewContextRaw" (func $new_raw_context (param i32) (result i32)))
  (import "engine" "JS_NewContext" (func $new_context (param i32) (result i32)))
  (import "engine" "JS_SetGCThreshold" (func $set_gc_threshold (param i32 i32)))
  (import "engine" "JS_RunGC" (func $run_gc (param i32)))
  (import "engine" "JS_Eval" (func $eval (param i32 i32 i32 i32 i32) (result i64)))
  (import "engine" "JS_EvalFunction" (func $eval_function (param i32 i64) (result i64)))
  (import "engine" "JS_GetModuleNamespace" (func $get_module_namespace (param i32 i32) (result i64)))
  (import "engine" "JS_Call" (func $js_call (param i32 i64 i64 i32 i32) (result i64)))
  (import "engine" "JS_ExecutePendingJob" (func $execute_pending_job (param i32 i32) (result i32)))
  (import "engine" "JS_PromiseState" (func $promise_state (param i32 i64) (result i32)))
  (import "engine" "JS_PromiseResult" (func $promise_result (param i32 i64) (result i64)))
  (import "engine" "JS_GetException" (func $get_exception (param i32) (result i64)))
  (import "engine" "JS_DupValue" (func $dup_value (param i32 i64) (result i64)))
  (import "engine" "JS_FreeValue" (func $free_value (param i32 i64)))
  (import "engine" "JS_GetGlobalObject" (func $get_global_object (param i32) (result i64)))
  (import "engine" "JS_GetPrototype" (func $get_prototype (param i32 i64) (result i64)))
  (import "engine" "JS_NewCFunction2" (func $new_c_function (param i32 i32 i32 i32 i32 i32) (result i64)))
  (import "engine" "JS_NewObject" (func $new_object (param i32) (result i64)))
  (import "engine" "JS_NewArray" (func $new_array (param i32) (result i64)))
  (import "engine" "JS_NewArrayFrom" (func $new_array_from (param i32 i32 i32) (result i64)))
  (import "engine" "JS_NewAtomLen" (func $new_atom (param i32 i32 i32) (result i32)))
  (import "engine" "JS_FreeAtom" (func $free_atom (param i32 i32)))
  (import "engine" "JS_NewStringLen" (func $new_string (param i32 i32 i32) (result i64)))
  (import "engine" "JS_NewNumber" (func $new_number (param i32 f64) (result i64)))
  (import "engine" "JS_NewBigUint64" (func $new_big_uint (param i32 i64) (result i64)))
  (import "engine" "JS_NewUint8ArrayCopy" (func $new_uint8array (param i32 i32 i32) (result i64)))
  (import "engine" "JS_DefinePropertyValue" (func $define_property (param i32 i64 i32 i64 i32) (result i32)))
  (import "engine" "JS_SetPropertyUint32" (func $set_index (param i32 i64 i32 i64) (result i32)))
  (import "engine" "JS_SetPropertyStr" (func $set_property_str (param i32 i64 i32 i64) (result i32)))
  (import "engine" "JS_GetPropertyUint32" (func $get_index (param i32 i64 i32) (result i64)))
  (import "engine" "JS_GetProperty" (func $get_property (param i32 i64 i32) (result i64)))
  (import "engine" "JS_GetOwnPropertyNames" (func $get_own_property_names (param i32 i32 i32 i64 i32) (result i32)))
  (import "engine" "JS_FreePropertyEnum" (func $free_property_names (param i32 i32 i32)))
  (import "engine" "JS_GetLength" (func $get_length (param i32 i64 i32) (result i32)))
  (import "engine" "JS_GetClassID" (func $get_class_id (param i64) (result i32)))
  (import "engine" "JS_GetTypedArrayType" (func $get_typed_array_type (param i64) (result i32)))
  (import "engine" "JS_GetUint8Array" (func $get_uint8array (param i32 i32 i64) (result i32)))
  (import "engine" "JS_IsArrayBuffer" (func $is_array_buffer (param i64) (result i32)))
  (import "engine" "JS_GetArrayBuffer" (func $get_array_buffer (param i32 i32 i64) (result i32)))
  (import "engine" "JS_ToCStringLen2" (func $to_text (param i32 i32 i64 i32) (result i32)))
  (import "engine" "JS_FreeCString" (func $free_text (param i32 i32)))
  (import "engine" "JS_AtomToCStringLen" (func $atom_to_text (param i32 i32 i32) (result i32)))
  (import "engine" "JS_ToInt32" (func $to_int32 (param i32 i32 i64) (result i32)))
  (import "engine" "JS_ToBigInt64" (func $to_big_int64 (param i32 i32 i64) (result i32)))

  ;; Set at boot, the same ever after.
  (global $runtime (mut i32) (i32.const 0))
  (global $context (mut i32) (i32.const 0))
  (global $scratch (mut i32) (i32.const 0)) ;; 0 two out-parameters, 8 a length, 16 one argument
  (global $stack_low (mut i32) (i32.const 0))
  (global $stack_high (mut i32) (i32.const 0))
  (global $plain_prototype (mut i64) (i64.const 0x3_0000_0000))
  (global $on_load (mut i64) (i64.const 0x3_0000_0000))
  (global $on_call (mut i64) (i64.const 0x3_0000_0000))
  (global $on_raised (mut i64) (i64.const 0x3_0000_0000))
  (global $on_not_plain (mut i64) (i64.const 0x3_0000_0000))
  (global $on_malformed (mut i64) (i64.const 0x3_0000_0000))
  (global $on_negative (mut i64) (i64.const 0x3_0000_0000)) ;; n -> -1n - n
  (global $on_big (mut i64) (i64.const 0x3_0000_0000)) ;; a BigInt -> [major type, argument]; throws out of range
  (global $to_lower (mut i64) (i64.const 0x3_0000_0000)) ;; the engine's own, for more than ASCII
  (global $to_upper (mut i64) (i64.const 0x3_0000_0000))
  (global $last_call (mut i64) (i64.const 0)) ;; the answer (packed) where not even the error could be told
  (global $last_load (mut i64) (i64.const 0))

  ;; In use inside one entry, 0 outside: what loading leaves in a global would be lost.
  (global $at (mut i32) (i32.const 0))
  (global $end (mut i32) (i32.const 0))
  (global $out (mut i32) (i32.const 0))
  (global $used (mut i32) (i32.const 0))
  (global $room (mut i32) (i32.const 0))
  (global $module (mut i32) (i32.const 0))
  (global $random (mut i64) (i64.const 0))

