;; The three functions by which the host reaches into CPython, appended to its snapshot.
;; {room}, {unpacked}, {given}, {load}, {call} and {explain} are addresses in it, {room_bytes} is how much fits at the
;; first two.
(module
  (import "cpython" "memory" (memory 1))
  ;; _PyFunction_Vectorcall(function, arguments, count, names of keywords)
  (import "cpython" "vectorcall" (func $vectorcall (param i32 i32 i32 i32) (result i32)))

  (import "cpython" "rho:unpack" (func $unpack (param i32 i32 i32) (result i32)))
  (import "cpython" "rho:pack" (func $pack (param i32 i32) (result i32)))

  ;; What is small goes where there is room already; what is large gets pages that nobody else has. 0: there are none.
  (func $place (param $size i32) (param $room i32) (result i32)
    (if (i32.le_u (local.get $size) (i32.const {room_bytes}))
      (then (return (local.get $room))))
    (local.set $size
      (memory.grow
        (i32.add
          (i32.shr_u (local.get $size) (i32.const 16))
          (i32.ne (i32.and (local.get $size) (i32.const 0xffff)) (i32.const 0)))))
    (if (i32.eq (local.get $size) (i32.const -1))
      (then (return (i32.const 0))))
    (i32.shl (local.get $size) (i32.const 16)))

  (func (export "rho_alloc") (param $size i32) (result i32)
    (call $place (local.get $size) (i32.const {room})))

  ;; The bytearray {given} becomes a view of what is given, then the function is called, which answers a bytes object.
  ;; NULL is an exception that nothing caught, for want of memory or of stack.
  (func $run (param $function i32) (param $pointer i32) (param $size i32) (result i32)
    (i32.store (i32.const {given_size}) (local.get $size))
    (i32.store (i32.const {given_allocated}) (i32.add (local.get $size) (i32.const 1)))
    (i32.store (i32.const {given_bytes}) (local.get $pointer))
    (i32.store (i32.const {given_start}) (local.get $pointer))
    (local.set $function
      (call $vectorcall (local.get $function) (i32.const 0) (i32.const 0) (i32.const 0)))
    (if (i32.eqz (local.get $function)) (then (unreachable)))
    (local.get $function))

  ;; A bytes object as an answer: its length is at 8, its content at 16.
  (func $answer (param $bytes i32) (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (i32.add (local.get $bytes) (i32.const 16))) (i64.const 32))
      (i64.load32_u offset=8 (local.get $bytes))))

  ;; Bytecode adapts while it runs. That of the engine is made what it was before: {places} are where {codes} pieces of
  ;; it begin and how long each is, an even number, and {originals} is what they held.
  (func $restore_code
    (local $place i32) (local $end i32) (local $original i32) (local $at i32) (local $code_end i32)
    (local.set $place (i32.const {places}))
    (local.set $end (i32.add (local.get $place) (i32.shl (i32.const {codes}) (i32.const 3))))
    (local.set $original (i32.const {originals}))
    (loop $code
      (local.set $at (i32.load (local.get $place)))
      (local.set $code_end (i32.add (local.get $at) (i32.load offset=4 (local.get $place))))
      (block $rest
        (loop $eight
          (br_if $rest (i32.lt_u (i32.sub (local.get $code_end) (local.get $at)) (i32.const 8)))
          (if (i64.ne (i64.load (local.get $at)) (i64.load (local.get $original)))
            (then (i64.store (local.get $at) (i64.load (local.get $original)))))
          (local.set $original (i32.add (local.get $original) (i32.const 8)))
          (local.set $at (i32.add (local.get $at) (i32.const 8)))
          (br $eight)))
      (block $done
        (loop $two
          (br_if $done (i32.ge_u (local.get $at) (local.get $code_end)))
          (if (i32.ne (i32.load16_u (local.get $at)) (i32.load16_u (local.get $original)))
            (then (i32.store16 (local.get $at) (i32.load16_u (local.get $original)))))
          (local.set $original (i32.add (local.get $original) (i32.const 2)))
          (local.set $at (i32.add (local.get $at) (i32.const 2)))
          (br $two)))
      (br_if $code
        (i32.lt_u
          (local.tee $place (i32.add (local.get $place) (i32.const 8)))
          (local.get $end)))))

  ;; What loading does to the engine's own code, and leaves on the stack, would be part of the image.
  (func (export "rho_load") (param i32 i32) (result i64)
    (local $result i64)
    (local.set $result (call $answer (call $run (i32.const {load}) (local.get 0) (local.get 1))))
    (call $restore_code)
    (memory.fill (i32.const {stack_scrubbed}) (i32.const 0) (i32.const {stack_scrubbed_bytes}))
    (local.get $result))
  ;; The request in marshal's format is at most five times as long, and so is the answer, which becomes CBOR where it is.
  ;; What cannot become CBOR so, Python makes CBOR itself, or says what is wrong with it.
  (func (export "rho_call") (param $pointer i32) (param $size i32) (result i64)
    (local $bytes i32) (local $length i32)
    (local.set $bytes
      (call $place
        (i32.add (i32.mul (local.get $size) (i32.const 5)) (i32.const 16))
        (i32.const {unpacked})))
    (if (i32.eqz (local.get $bytes)) (then (unreachable)))
    (local.set $size (call $unpack (local.get $pointer) (local.get $size) (local.get $bytes)))
    (local.set $bytes (call $run (i32.const {call}) (local.get $bytes) (local.get $size)))
    (if (i32.ne (i32.load8_u offset=16 (local.get $bytes)) (i32.const {map_letter}))
      (then (return (call $answer (local.get $bytes)))))
    (local.set $length
      (call $pack (i32.add (local.get $bytes) (i32.const 16)) (i32.load offset=8 (local.get $bytes))))
    (if (i32.eqz (local.get $length))
      (then
        (return (call $answer (call $run (i32.const {explain}) (i32.const 0) (i32.const 0))))))
    (i64.or
      (i64.shl (i64.extend_i32_u (i32.add (local.get $bytes) (i32.const 16))) (i64.const 32))
      (i64.extend_i32_u (local.get $length)))))
