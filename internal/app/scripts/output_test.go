package scripts

import (
	"bytes"
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/face/cli"
	"fleet/internal/face/facetest"
	"fleet/internal/waittest"
)

// TestOutputNamesNoTools runs the commands that leafCommands returns with wrong input. The output must name commands and flags,
// and not the tools and fields of the API. The test ignores texts in double quotes, because they repeat the input.
func TestOutputNamesNoTools(t *testing.T) {
	t.Parallel()
	cfg := app.DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.CreateWait = "127.0.0.1:0", "127.0.0.1:0", t.TempDir(), time.Second
	server, stop, err := start(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	run := func(limit time.Duration, args ...string) string {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		env := map[string]string{"FLEET_SERVER": server.GRPCAddr(), "XDG_CONFIG_HOME": cfg.Data}
		cli.Run(ctx, args, cli.Deps{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(k string) string { return env[k] }})
		return out.String()
	}
	require.Contains(t, run(waittest.Limit, "agent", "create", "papi", "--project", "shell", "--spec", "s"), "created")
	require.Contains(t, run(waittest.Limit, "task", "run", "papi", "true", "--follow"), "Completed")
	require.Contains(t, run(waittest.Limit, "pool", "create", "web", "--project", "shell"), "web")

	names := namesOfAPI()
	require.Greater(t, len(names), 150)
	runs := 0
	var group errgroup.Group
	group.SetLimit(4)
	check := func(args []string) {
		runs++
		group.Go(func() error {
			checkWords(t, names, args, run(5*time.Second, args...))
			return nil
		})
	}
	for _, cmd := range leafCommands(cli.New(cli.Deps{})) {
		path := strings.Fields(cmd.CommandPath())[1:]
		for _, values := range [][2]string{{"nobody", "x=y"}, {"papi", " "}} {
			args := slices.Concat(path, argumentsFor(cmd, values[0], values[1]))
			check(args)
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Value.Type() == "bool" || slices.Contains([]string{"output-file", "help"}, f.Name) {
					return
				}
				if cmd.Name() == "audit" && f.Name == "method" {
					return // it takes a method of the API
				}
				for _, value := range []string{"-1", " ", "x"} {
					if f.Name == "output" { // names a file here; in the directory of the tests it would invalidate cached results
						value = filepath.Join(cfg.Data, value)
					}
					check(append(slices.Clone(args), "--"+f.Name+"="+value))
				}
			})
		}
	}
	require.NoError(t, group.Wait())
	require.Greater(t, runs, 1000)
	t.Logf("%d runs", runs)
}

// checkWords fails the test if the output of the command contains a name of the API outside of quotes.
func checkWords(t *testing.T, names map[string]bool, args []string, out string) {
	for word := range strings.FieldsFuncSeq(quotedText.ReplaceAllString(out, ""), func(r rune) bool { return strings.ContainsRune(" \n\t,;()'`", r) }) {
		if word = strings.TrimRight(word, ".:"); names[word] {
			t.Errorf("fleet %q says %s: %s", args, word, out)
		}
	}
}

// quotedText matches a text in double quotes.
var quotedText = regexp.MustCompile(`"[^"]*"`)

// leafCommands returns the commands that have no subcommands. It leaves out help topics, and commands that need a person or wait
// for a signal.
func leafCommands(cmd *cobra.Command) (list []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if slices.Contains([]string{"attach", "completion", "environment", "exit-codes", "flags", "help", "login", "logout", "open", "pause"}, sub.Name()) {
			continue
		}
		list = append(list, leafCommands(sub)...)
	}
	if len(list) == 0 && cmd.HasParent() {
		list = append(list, cmd)
	}
	return list
}

// argumentsFor returns arguments for the usage line of the command: name where the line has a name or an id, such as AGENT,
// and text elsewhere.
func argumentsFor(cmd *cobra.Command, name, text string) (args []string) {
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "--") {
			break
		}
		if word = strings.Trim(strings.TrimSuffix(word, "..."), "[]"); slices.Contains([]string{"AGENT", "NAME", "PROJECT", "ID", "TASK", "POOL", "TARGET", "PLAN"}, word) {
			args = append(args, name)
		} else {
			args = append(args, text)
		}
	}
	return args
}

// namesOfAPI returns the names that consist of several words: those of tools and of fields of requests.
func namesOfAPI() map[string]bool {
	names := map[string]bool{}
	protoregistry.GlobalFiles.RangeFilesByPackage("fleet.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				m := file.Services().Get(i).Methods().Get(j)
				names[facetest.ToolName(m.Name())] = true
				for k := range m.Input().Fields().Len() {
					names[string(m.Input().Fields().Get(k).Name())] = true
				}
			}
		}
		return true
	})
	maps.DeleteFunc(names, func(name string, _ bool) bool { return !strings.Contains(name, "_") })
	return names
}
