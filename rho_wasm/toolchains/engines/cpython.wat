;; The three functions by which the host reaches into CPython, appended to its snapshot.
;; {room}, {given}, {load} and {call} are addresses in it, {room_bytes} is how much fits at the first.
(module
  (import "cpython" "memory" (memory 1))
  ;; _PyFunction_Vectorcall(function, arguments, count, names of keywords)
  (import "cpython" "vectorcall" (func $vectorcall (param i32 i32 i32 i32) (result i32)))

  ;; A small request goes where there is room already; a large one gets pages that nobody else has.
  (func (export "rho_alloc") (param $size i32) (result i32)
    (if (i32.le_u (local.get $size) (i32.const {room_bytes}))
      (then (return (i32.const {room}))))
    (local.set $size
      (memory.grow
        (i32.add
          (i32.shr_u (local.get $size) (i32.const 16))
          (i32.ne (i32.and (local.get $size) (i32.const 0xffff)) (i32.const 0)))))
    (if (i32.eq (local.get $size) (i32.const -1))
      (then (return (i32.const 0))))
    (i32.shl (local.get $size) (i32.const 16)))

  ;; The bytearray {given} becomes a view of the request, then the function is called, which answers a bytes object:
  ;; its length is at 8, its content at 16. NULL is an exception that nothing caught, for want of memory or of stack.
  (func $run (param $function i32) (param $pointer i32) (param $size i32) (result i64)
    (i32.store (i32.const {given_size}) (local.get $size))
    (i32.store (i32.const {given_allocated}) (i32.add (local.get $size) (i32.const 1)))
    (i32.store (i32.const {given_bytes}) (local.get $pointer))
    (i32.store (i32.const {given_start}) (local.get $pointer))
    (local.set $function
      (call $vectorcall (local.get $function) (i32.const 0) (i32.const 0) (i32.const 0)))
    (if (i32.eqz (local.get $function)) (then (unreachable)))
    (i64.or
      (i64.shl (i64.extend_i32_u (i32.add (local.get $function) (i32.const 16))) (i64.const 32))
      (i64.load32_u offset=8 (local.get $function))))

  (func (export "rho_load") (param i32 i32) (result i64)
    (call $run (i32.const {load}) (local.get 0) (local.get 1)))
  (func (export "rho_call") (param i32 i32) (result i64)
    (call $run (i32.const {call}) (local.get 0) (local.get 1))))
