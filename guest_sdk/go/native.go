//go:build !wasip1

package rho

import "os"

// Outside of a guest, in an author's own tests and editor, there is no host: the log is standard error.

func log(_ int, text string) { os.Stderr.WriteString(text + "\n") }

func hostCall([]byte) []byte {
	return encode(map[string]any{"error": map[string]any{"kind": "unavailable", "message": "there is no host here"}})
}
