package npm

import (
	"net/http/httptest"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestModelIDs checks that ids of tool calls are unique even when memory is reused. It does not need npm.
func TestModelIDs(t *testing.T) {
	id := regexp.MustCompile(`"id":"toolu_[^"]+"`)
	seen := map[string]bool{}
	for range 100 {
		w := httptest.NewRecorder()
		stream(w, "m", map[string]any{"type": "tool_use", "name": "Read", "input": map[string]any{}})
		got := id.FindString(w.Body.String())
		require.NotEmpty(t, got)
		require.False(t, seen[got], "%s is not unique", got)
		seen[got] = true
		runtime.GC()
	}
}
