package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden help texts")

// walk calls f for each of Fleet's own commands.
func walk(cmd *cobra.Command, f func(*cobra.Command)) {
	if cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	f(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, f)
	}
}

func TestHelpTexts(t *testing.T) {
	t.Parallel()
	walk(New(Deps{}), func(cmd *cobra.Command) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			t.Parallel()
			c := newCommand("")
			args := append([]string{"help"}, strings.Fields(cmd.CommandPath())[1:]...)
			require.Equal(t, ExitOK, c.run(args...), c.err.String())
			for line := range strings.Lines(c.out.String()) {
				require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 130, line)
			}
			if isDerived(cmd) { // the texts come from the proto files and are reviewed there
				return
			}
			golden := filepath.Join("../../../testdata/cli/help", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".txt")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
				require.NoError(t, os.WriteFile(golden, []byte(c.out.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "to write the file, run go test ./internal/face/cli -run TestHelpTexts -update")
			require.Equal(t, string(want), c.out.String())
		})
	})
}

// isDerived reports whether the command is a toolset or belongs to one.
func isDerived(cmd *cobra.Command) bool {
	return cmd.GroupID == GroupTools || cmd.HasParent() && isDerived(cmd.Parent())
}

func TestEveryCommandTeaches(t *testing.T) {
	t.Parallel()
	walk(New(Deps{}), func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		require.LessOrEqual(t, len(cmd.Short), 70, "%s: the first sentence about it is too long for a list of commands", cmd.CommandPath())
		require.NotEmpty(t, cmd.Long, cmd.CommandPath())
		if cmd.Runnable() {
			require.NotEmpty(t, cmd.Example, cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			require.True(t, strings.HasPrefix(line, "  "), "%s: %q", cmd.CommandPath(), line)
		}
	})
}

func TestTheAppsCommandsBelong(t *testing.T) {
	t.Parallel()
	c := newCommand("h:1")
	var got Target
	serve := &cobra.Command{Use: "serve", Short: "Serve", GroupID: GroupServer, RunE: func(cmd *cobra.Command, _ []string) (err error) {
		got, err = TargetOf(cmd)
		if err == nil {
			err = Fail(ExitConflict, "stop it first", "a server runs already")
		}
		return err
	}}
	code := Run(t.Context(), []string{"serve", "--data", "d"}, Deps{Stdout: c.out, Stderr: c.err, Getenv: func(k string) string { return c.env[k] }}, serve)
	require.Equal(t, ExitConflict, code)
	require.Equal(t, Target{Server: "h:1", Data: "d"}, got)
	require.Equal(t, "fleet: a server runs already; stop it first\n", c.err.String())
}
