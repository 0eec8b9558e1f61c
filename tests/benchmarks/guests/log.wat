;; Logs one byte, for ever.
(module
  (import "rho" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "x")
  (func (export "rho_alloc") (param i32) (result i32) (i32.const 4096))
  (func (export "rho_call") (param i32 i32) (result i64)
    (loop $again
      (call $log (i32.const 20) (i32.const 16) (i32.const 1))
      (br $again))
    unreachable))
