package loopback_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/loopback"
)

func TestIs(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "127.0.0.1": true, "127.9.8.7": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "::ffff:10.0.0.1": false, "127.0.0.1.example.com": false,
		"localhost.example.com": false, "x.localhost": false, "127.1": false, "[::1]": false, "127.0.0.1:80": false,
	} {
		require.Equal(t, want, loopback.Is(host), host)
	}
}

func TestIsAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"localhost:80": true, "127.0.0.1:0": true, "[::1]:443": true,
		"": false, ":80": false, "localhost": false, "::1": false, "0.0.0.0:80": false, "example.com:80": false,
	} {
		require.Equal(t, want, loopback.IsAddress(address), address)
	}
}

func TestDialAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		":1": "127.0.0.1:1", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "[::1]:1", "10.0.0.1:1": "10.0.0.1:1", "[::1]:1": "[::1]:1", "fleet.example.com:1": "fleet.example.com:1",
		"localhost:1": "localhost:1", "none": "none", "": "",
	} {
		require.Equal(t, want, loopback.DialAddress(address), address)
	}
}
