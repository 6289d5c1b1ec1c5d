package runner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
)

// TestNoProxyForFleet checks that programs reach this machine and Fleet directly, although they use a proxy for other hosts.
func TestNoProxyForFleet(t *testing.T) {
	t.Parallel()
	const proxy, report = "http://proxy.example.com:3128", "http://10.0.0.5:8101/mcp"
	for name, c := range map[string]struct {
		env  map[string]string
		want string // value of both variables; "-" if they must not be set
	}{
		"no proxy":         {map[string]string{"FLEET_REPORT_URL": report}, "-"},
		"lower case":       {map[string]string{"http_proxy": proxy, "FLEET_REPORT_URL": report}, "localhost,127.0.0.1,::1,10.0.0.5"},
		"upper case":       {map[string]string{"HTTPS_PROXY": proxy}, "localhost,127.0.0.1,::1"},
		"all":              {map[string]string{"ALL_PROXY": proxy}, "localhost,127.0.0.1,::1"},
		"a list":           {map[string]string{"HTTP_PROXY": proxy, "NO_PROXY": "a.example.com, localhost"}, "a.example.com,localhost,127.0.0.1,::1"},
		"two lists":        {map[string]string{"HTTP_PROXY": proxy, "NO_PROXY": "a.example.com", "no_proxy": "b.example.com"}, "b.example.com,a.example.com,localhost,127.0.0.1,::1"},
		"IPv6":             {map[string]string{"HTTP_PROXY": proxy, "FLEET_REPORT_URL": "http://[::1]:8101/mcp"}, "localhost,127.0.0.1,::1"},
		"the sandbox's":    {map[string]string{"HTTP_PROXY": "http://" + sandbox.ProxyAddress, "NO_PROXY": "", "no_proxy": "", "FLEET_REPORT_URL": report}, ""},
		"an empty setting": {map[string]string{"HTTP_PROXY": "", "FLEET_REPORT_URL": report}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runner.Environ(c.env)
			if c.want == "-" {
				for _, v := range got {
					require.NotRegexp(t, "^(NO_PROXY|no_proxy)=", v)
				}
				return
			}
			require.Contains(t, got, "NO_PROXY="+c.want)
			require.Contains(t, got, "no_proxy="+c.want)
		})
	}
}
