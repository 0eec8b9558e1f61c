//go:build wasip1

package rho

import "unsafe"

//go:wasmimport rho log
func hostLog(level uint32, text unsafe.Pointer, size uint32)

//go:wasmimport rho host_call
func hostAsk(request unsafe.Pointer, size uint32) uint32

//go:wasmimport rho host_take
func hostTake(reply unsafe.Pointer, size uint32) uint32

func log(level int, text string) {
	hostLog(uint32(level), unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}

func hostCall(request []byte) []byte {
	reply := make([]byte, hostAsk(unsafe.Pointer(unsafe.SliceData(request)), uint32(len(request))))
	return reply[:hostTake(unsafe.Pointer(unsafe.SliceData(reply)), uint32(len(reply)))]
}

// What the host holds pointers to, which the garbage collector does not see.
var held [][]byte

func hold(data []byte) unsafe.Pointer {
	held = append(held, data)
	return unsafe.Pointer(unsafe.SliceData(data))
}

//go:wasmexport rho_alloc
func exportAlloc(size uint32) unsafe.Pointer {
	// A byte more: nothing allocated has no address of its own.
	return hold(make([]byte, uint64(size)+1))
}

//go:wasmexport rho_call
func exportCall(request unsafe.Pointer, size uint32) uint64 {
	return packed(answer(unsafe.Slice((*byte)(request), size)))
}

//go:wasmexport rho_manifest
func exportManifest() uint64 { return packed(declaration()) }

func packed(data []byte) uint64 {
	return uint64(uintptr(hold(data)))<<32 | uint64(len(data))
}
