package local

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRecord checks that a place reads or refuses a record with any content, because an unconfined agent can write its record. If a
// record can be read, writing it must not change it.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"uid":"u","name":"papi","project":"shell","created_at":"2026-01-01T00:00:00Z","ready":true,"dir":"../x"}`))
	f.Add([]byte(`{"uid":"\u0000","failed":"x","deleting":true,"kept":"\ud800"}`))
	f.Add([]byte(`{"created_at":"99999-01-01T00:00:00Z"}`))
	f.Add([]byte("null"))
	h := home(f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(h.join("agent.json"), data, 0o600))
		r, err := h.record()
		if err != nil {
			require.Contains(t, err.Error(), "agent.json")
			return
		}
		w, _ := h.inspect()
		require.NotEmpty(t, w.State)
		require.NoError(t, h.writeRecord(r))
		again, err := h.record()
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
