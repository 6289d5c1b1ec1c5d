package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		":1": "127.0.0.1:1", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "[::1]:1", "10.0.0.1:1": "10.0.0.1:1", "[::1]:1": "[::1]:1", "fleet.example.com:1": "fleet.example.com:1",
		"localhost:1": "localhost:1", "none": "none", "": "",
	} {
		require.Equal(t, want, onLoopback(addr), addr)
	}
}
