package dial

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIsPublic checks addresses in IANA's special-purpose ranges, IPv6 addresses that contain an IPv4 address, and public
// addresses.
func TestIsPublic(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.1", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.1.1", "192.175.48.1", "198.18.0.1", "198.19.255.255",
		"198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "fec0::1", "ff02::1", "100::1", "100:0:0:1::1", "5f00::1",
		"2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::", "2620:4f:8000::1", "3fff::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
		"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "64:ff9b:1::8.8.8.8",
	} {
		require.False(t, IsPublic(netip.MustParseAddr(address)), address)
	}
	for _, address := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"} {
		require.True(t, IsPublic(netip.MustParseAddr(address)), address)
	}
}

// TestPublicTransport checks to which hosts a PublicTransport connects: by name, by address, and after a redirect.
func TestPublicTransport(t *testing.T) {
	t.Parallel()
	var port string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "http://localhost:"+port, http.StatusTemporaryRedirect)
			return
		}
		fmt.Fprint(w, "reached")
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	_, port, err = net.SplitHostPort(u.Host)
	require.NoError(t, err)
	get := func(address string, allowedHosts ...string) error {
		base := PublicTransport(allowedHosts...)
		defer base.CloseIdleConnections()
		res, err := (&http.Client{Transport: base}).Get(address)
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"} {
		require.ErrorIs(t, get("http://"+host+":"+port), ErrNotPublic, host)
	}
	require.NoError(t, get(s.URL, "127.0.0.1"))
	require.NoError(t, get(s.URL, u.Host))
	require.NoError(t, get("http://LOCALHOST:"+port, "localhost"))
	require.ErrorIs(t, get(s.URL, "127.0.0.1:1", "localhost"), ErrNotPublic, "permission for another host or port must not count")
	require.ErrorIs(t, get(s.URL+"/redirect", "127.0.0.1"), ErrNotPublic, "a redirect to a host that is not allowed must fail")
	require.NoError(t, get(s.URL+"/redirect", "127.0.0.1", "localhost"))
}
