package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestFlagErrorsSayWhatToWrite checks that an error about flags or arguments says what to write, and does not mention the
// package strconv. The flags and arguments are invalid, missing, in conflict, or too many.
func TestFlagErrorsSayWhatToWrite(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"task list papi --page abc":                         `--page is "abc": give a whole number`,
		"task list papi --page 99999999999999999999999":     `--page is "99999999999999999999999", which is too large or too small`,
		"task wait --timeout soon x":                        `--timeout is "soon": give a time with its unit, such as 30s, 45m or 24h`,
		"agent list --quiet=maybe":                          `--quiet is "maybe": give true or false`,
		"agent list --status sleepy":                        `--status is "sleepy": give busy, idle or offline`,
		"task list --toolset none":                          `--toolset is "none": give fleet, lifecycle, `,
		"token create x --kind robot":                       `--kind is "robot": give human, controller or agent`,
		"token create x --ttl soon":                         `--ttl is "soon": give at least one second, with a unit, such as `,
		"task start x y --check-timeout 5":                  `--check-timeout is "5": give at least one second`,
		"agent create x --spec y":                           `--project is missing: "fleet project list" shows the projects`,
		"agent create x --project y":                        "say what the agent is for: give either --spec TEXT or --spec-file FILE",
		"agent create x --project y --spec z --spec-file -": "give either --spec TEXT or --spec-file FILE",
		"agent list extra":                                  `too many arguments, from "extra" on: the command takes no arguments`,
		"task delete":                                       "ID is missing: fleet task delete ID... [flags]",
		"task list a b":                                     `too many arguments, from "b" on; put quotes`,
		"agent list -o xml":                                 `--output is "xml": give table, `,
	} {
		c := newCommand("")
		require.Equal(t, ExitUsage, c.run(strings.Fields(line)...), line)
		require.Contains(t, c.stderr.String(), want, line)
		require.NotContains(t, c.stderr.String(), "strconv", line)
	}
}

// TestParams checks which values the flag --param accepts.
func TestParams(t *testing.T) {
	t.Parallel()
	var values map[string]string
	cmd := &cobra.Command{}
	addParameters(cmd, &values, "")
	for _, text := range []string{"region=eu", "list=a=b,c"} {
		require.NoError(t, cmd.Flags().Set("param", text))
	}
	require.Equal(t, map[string]string{"region": "eu", "list": "a=b,c"}, values)
	for wrong, want := range map[string]string{"region": `--param is "region": write NAME=VALUE`, "=eu": `--param is "=eu": write`, "region=us": "--param has region twice: give it once"} {
		c := newCommand("")
		require.Equal(t, ExitUsage, c.run("agent", "create", "papi", "--param", "region=eu", "--param", wrong))
		require.Contains(t, c.stderr.String(), "fleet: "+want)
	}
}

func TestFlagsOfSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int32{"30m": 1800, "90d": 90 * 86400, "1500ms": 2} {
		var got int32
		cmd := &cobra.Command{}
		addSeconds(cmd, "ttl", "", func(n int32) { got = n })
		require.NoError(t, cmd.Flags().Set("ttl", text))
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "soon", "-1h", "0", "d", "1ms"} {
		cmd := &cobra.Command{}
		addSeconds(cmd, "ttl", "", func(int32) { t.Error(text) })
		require.ErrorContains(t, cmd.Flags().Set("ttl", text), "give at least one second, with a unit", text)
	}
	cmd := &cobra.Command{}
	addSeconds(cmd, "ttl", "", func(n int32) { t.Error(n) })
	require.ErrorContains(t, cmd.Flags().Set("ttl", "60000d"), "give at most 24855d")
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90m":                  "2026-11-22T08:30:00Z",
		"7d":                   "2026-11-15T10:00:00Z",
		"0s":                   "2026-11-22T10:00:00Z",
		"2026-11-01":           "2026-11-01T00:00:00Z",
		"2026-11-01 12:00:00":  "2026-11-01T12:00:00Z",
		"2026-11-01T10:30:00Z": "2026-11-01T10:30:00Z",
	} {
		got, err := parseTime(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, got.AsTime().Format(time.RFC3339), text)
	}
	for _, text := range []string{"never", "-5m", "d", "-1d", "7", "2026-13-01"} {
		_, err := parseTime(text, now)
		require.ErrorContains(t, err, "give a duration", text)
	}
}
