;; Fills 32 MiB of memory, for ever: one bulk operation is nothing that an epoch can end.
(module
  (memory (export "memory") 513)
  (func (export "rho_alloc") (param i32) (result i32) (i32.const 4096))
  (func (export "rho_call") (param i32 i32) (result i64)
    (loop $again
      (memory.fill (i32.const 65536) (i32.const 1) (i32.const 33554432))
      (br $again))
    unreachable))
