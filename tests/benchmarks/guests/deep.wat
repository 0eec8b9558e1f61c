;; Goes 5,000 calls deep and comes back, for ever.
(module
  (memory (export "memory") 1)
  (func (export "rho_alloc") (param i32) (result i32) (i32.const 4096))
  (func $deeper (param $left i32) (result i32)
    (if (i32.eqz (local.get $left)) (then (return (i32.const 0))))
    (i32.add (call $deeper (i32.sub (local.get $left) (i32.const 1))) (i32.const 1)))
  (func (export "rho_call") (param i32 i32) (result i64)
    (loop $again
      (drop (call $deeper (i32.const 5000)))
      (br $again))
    unreachable))
