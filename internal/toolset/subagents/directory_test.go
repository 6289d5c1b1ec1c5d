package subagents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plainDefinition is the content of a valid file.
const plainDefinition = "---\ndescription: x\n---\nDo it."

// TestDirectory checks which files in directories define subagents, and the errors of the others.
func TestDirectory(t *testing.T) {
	t.Parallel()
	d, write := newDirectory(t)
	_, err := d.get("good")
	require.ErrorIs(t, err, errNoDefinition, "a missing directory must have no definitions")
	list, broken, err := d.all()
	require.NoError(t, err)
	require.Empty(t, list)
	require.Empty(t, broken)

	write("agents/good/agent.md", plainDefinition)
	write("agents/bad/agent.md", "nothing")
	write("agents/main/agent.md", plainDefinition)
	write("agents/main/system-prompt.md", "x")
	write("agents/empty/notes.md", "x")
	write("agents/.hidden/agent.md", plainDefinition)
	write("agents/a b/agent.md", plainDefinition)
	write("agents/README.md", "x")
	write("agents/big/agent.md", plainDefinition+strings.Repeat("x", maxFile))
	write("agents/forgetful/agent.md", plainDefinition)
	write("agents/forgetful/memory.md", strings.Repeat("x", maxFile+1))
	write("outside/agent.md", plainDefinition)
	write("outside/memory.md", "outside")
	agents := d.path
	require.NoError(t, os.Symlink(filepath.Join(agents, "..", "outside"), filepath.Join(agents, "linked")))
	require.NoError(t, os.Symlink("../outside", filepath.Join(agents, "linked2")))
	require.NoError(t, os.Mkdir(filepath.Join(agents, "file"), 0o700))
	require.NoError(t, os.Symlink("../../outside/agent.md", filepath.Join(agents, "file", "agent.md")))
	write("agents/memory/agent.md", plainDefinition)
	require.NoError(t, os.Symlink("../../outside/memory.md", filepath.Join(agents, "memory", "memory.md")))
	require.NoError(t, os.Symlink("good", filepath.Join(agents, "alias")))
	require.NoError(t, os.MkdirAll(filepath.Join(agents, "pipe"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(agents, "pipe", "agent.md"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(agents, "directory", "agent.md"), 0o700))

	list, broken, err = d.all()
	require.NoError(t, err)
	var names []string
	for _, l := range list {
		names = append(names, l.Name)
	}
	require.Equal(t, []string{"alias", "good"}, names)
	for name, want := range map[string]string{
		"bad":       "bad/agent.md: it does not begin with a frontmatter",
		"a b":       "rename its directory",
		"big":       "big/agent.md has 262",
		"forgetful": "forgetful/memory.md has 262145 bytes, and the limit is 262144",
		"linked":    "linked/agent.md cannot be read: path escapes from parent",
		"linked2":   "linked2/agent.md cannot be read: path escapes from parent",
		"file":      "file/agent.md cannot be read: path escapes from parent",
		"memory":    "memory/memory.md cannot be read: path escapes from parent",
		"pipe":      "pipe/agent.md is not a regular file",
		"directory": "directory/agent.md is not a regular file",
	} {
		require.ErrorContains(t, broken[name], want)
		require.NotContains(t, broken[name].Error(), filepath.Dir(agents), "an error must not reveal paths of the server")
		delete(broken, name)
	}
	require.Empty(t, broken)
	for _, name := range []string{"main", ".hidden", "", ".", "..", "../outside", "good/", "a b", "empty", "README.md", "/etc", "good\x00"} {
		_, err := d.get(name)
		require.ErrorIs(t, err, errNoDefinition, name)
	}
	_, err = d.get("linked")
	require.ErrorContains(t, err, "escapes")
}

// TestFlatFiles checks which files NAME.md define subagents, also below other directories, and which names they get.
func TestFlatFiles(t *testing.T) {
	t.Parallel()
	d, write := newDirectory(t)
	write("agents/reviewer.md", plainDefinition)
	write("agents/README.md", "# Our agents")
	write("agents/team/lead/agent.md", plainDefinition)
	write("agents/team/tester.md", "---\nname: careful-tester\n---\nTest.")
	write("agents/team/README.md", "# The team")
	write("agents/team/deep/er/too-deep.md", plainDefinition)
	write("agents/reviewer/agent.md", plainDefinition)
	write("agents/team/z.md", "---\nname: careful-tester\n---\nTest.")
	write("agents/bad.md", "---\nsession: maybe\n---\n")
	write("agents/main.md", plainDefinition)

	list, broken, err := d.all()
	require.NoError(t, err)
	names := []string{}
	for _, l := range list {
		names = append(names, l.Name)
		got, err := d.get(l.Name)
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
	require.Equal(t, []string{"careful-tester", "lead", "reviewer"}, names)
	for name, want := range map[string]string{
		"reviewer.md": `reviewer.md: the subagent "reviewer" is already defined in reviewer/agent.md`,
		"team/z.md":   `the subagent "careful-tester" is already defined in team/tester.md`,
		"bad":         "bad.md: line 2: true or false is needed here",
		"main":        "choose another name",
	} {
		require.ErrorContains(t, broken[name], want)
		delete(broken, name)
	}
	require.Empty(t, broken)
	_, err = d.get("bad")
	require.ErrorContains(t, err, "true or false")
	for _, name := range []string{"tester", "README", "too-deep"} {
		_, err = d.get(name)
		require.ErrorIs(t, err, errNoDefinition, name)
	}
}

// TestDirectoryChanges checks that the next call sees a change of a file, also after many changes in quick succession.
func TestDirectoryChanges(t *testing.T) {
	t.Parallel()
	d, write := newDirectory(t)
	for i := range 50 {
		write("agents/a/agent.md", fmt.Sprintf("---\nsession: true\n---\nVersion %02d", i))
		got, err := d.get("a")
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("Version %02d", i), got.Body)
	}
	write("agents/a/memory.md", "one")
	got, err := d.get("a")
	require.NoError(t, err)
	require.Equal(t, "Version 49\n\n# Memory\n\none", got.Body)
	require.NoError(t, os.Remove(filepath.Join(d.path, "a", "memory.md")))
	got, err = d.get("a")
	require.NoError(t, err)
	require.Equal(t, "Version 49", got.Body)

	// An old unchanged file is not read again.
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(d.path, "a", "agent.md"), old, old))
	first, err := d.get("a")
	require.NoError(t, err)
	again, err := d.get("a")
	require.NoError(t, err)
	require.Same(t, first, again)
	write("agents/a/agent.md", "no more")
	_, err = d.get("a")
	require.ErrorContains(t, err, "frontmatter")
	require.NoError(t, os.RemoveAll(filepath.Join(d.path, "a")))
	_, err = d.get("a")
	require.ErrorIs(t, err, errNoDefinition)
	_, _, err = d.all()
	require.NoError(t, err)
	require.Empty(t, d.entries)
}

// BenchmarkThousandDefinitions measures accesses to a directory whose files do not change.
func BenchmarkThousandDefinitions(b *testing.B) {
	d, write := newDirectory(b)
	old := time.Now().Add(-time.Hour)
	for i := range 1000 {
		path := fmt.Sprintf("agents/agent-%04d/agent.md", i)
		write(path, "---\ndescription: one of many\npermissions: {allow: [Read, \"Bash(ls:*)\"]}\nmcp_servers: [{name: a, command: b, env: {K: v}}]\n---\nDo it.")
		path = filepath.Join(filepath.Dir(d.path), path)
		require.NoError(b, os.Chtimes(path, old, old))
	}
	_, _, _ = d.all()
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = d.all()
		}
	})
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			_, _ = d.get("agent-0500")
		}
	})
}

// newDirectory returns the directory "agents" in a temporary directory, and a function that writes files below the latter.
func newDirectory(t testing.TB) (*directory, func(path, text string)) {
	dir := t.TempDir()
	return &directory{path: filepath.Join(dir, "agents"), drivers: testDrivers, now: time.Now}, func(path, text string) {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}
