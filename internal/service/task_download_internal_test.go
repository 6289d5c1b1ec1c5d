package service

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUTF8CheckInAnyPieces checks that utf8Check gives the same result however the text is divided into
// writes.
func TestUTF8CheckInAnyPieces(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{"": true, "plain": true, "日本 ✅ é": true, "\xff": false, "日\xe6": false, "\xe6日": false, "a\xe6\x97": false} {
		for size := 1; size < 5; size++ {
			var c utf8Check
			for b := []byte(text); len(b) > 0; {
				n := min(size, len(b))
				written, err := c.Write(b[:n])
				require.NoError(t, err)
				require.Equal(t, n, written)
				b = b[n:]
			}
			require.Equal(t, valid, c.valid(), "%q in writes of %d bytes", text, size)
		}
	}
}
