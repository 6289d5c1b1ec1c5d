package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPath(t *testing.T) {
	t.Parallel()
	v := map[string]any{
		"type": "item.completed", "n": 1.5, "ok": true, "nil": nil,
		"item": map[string]any{"type": "message", "text": "hi", "list": []any{"a", map[string]any{"b": "c"}}},
	}
	for path, want := range map[string]string{
		"type": "item.completed", "item.text": "hi", "item.list.0": "a", "item.list.1.b": "c", "n": "1.5", "ok": "true", "nil": "",
		"item.no": "", "no.text": "", "type.x": "", "item.list.9": "", "item.list.x": "", "item.list": `["a",{"b":"c"}]`,
		"[type=item.completed].item.text": "hi", "[type=other].item.text": "", "item[type=message].text": "hi", "item[type=x].text": "",
		"[type=item.completed,n=1.5].item[type=message].text": "hi", "[type=item.completed, n=2].item.text": "", "type[a=b]": "",
	} {
		p, err := parsePath(path)
		require.NoError(t, err, path)
		require.Equal(t, want, p.text(v), path)
	}
	for _, path := range []string{".", "a.", ".a", "a..b", "a[", "a[b", "a[b]", "a[=c]", "a[b=c]d", "a[b=c]."} {
		_, err := parsePath(path)
		require.Error(t, err, path)
	}
}
