package driver

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// maxDiffed limits the total size of the two texts that unifiedDiff compares, in bytes.
const maxDiffed = 256 << 10

// unifiedDiff returns the change between two texts in the unified format, without file names. It returns an empty string if
// the texts together are larger than maxDiffed.
func unifiedDiff(before, after string) string {
	if len(before)+len(after) > maxDiffed {
		return ""
	}
	if before != "" && after != "" && !strings.HasSuffix(before, "\n") && !strings.HasSuffix(after, "\n") { // they are parts of lines
		before, after = before+"\n", after+"\n"
	}
	patch := udiff.Unified("", "", before, after)
	_, patch, _ = strings.Cut(patch, "\n") // --- and +++
	_, patch, _ = strings.Cut(patch, "\n")
	return patch
}
