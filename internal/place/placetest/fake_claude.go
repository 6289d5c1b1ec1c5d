package placetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FakeClaude is a program that writes output and conversation files like Claude Code. Agents run it for Prompts.Converses.
type FakeClaude struct {
	Program string // path of the program, for the driver claude
	Config  string // value for CLAUDE_CONFIG_DIR, a directory in which the program must be able to write
}

// NewFakeClaude creates the program and its directories. They exist until the test ends.
func NewFakeClaude(t *testing.T) FakeClaude {
	t.Helper()
	dir := t.TempDir()
	f := FakeClaude{Program: filepath.Join(dir, "bin", "claude"), Config: filepath.Join(dir, "config")}
	for _, d := range []string{filepath.Dir(f.Program), f.Config} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	require.NoError(t, os.WriteFile(f.Program, []byte(fakeClaudeSource), 0o700))
	return f
}

// Forget deletes all conversations.
func (f FakeClaude) Forget(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(f.Config, "projects")))
}

// fakeClaudeSource is the source of the program. It prints the number of tasks in its conversation.
const fakeClaudeSource = `#!/usr/bin/env bash
while [ $# -gt 0 ]; do
	[ "$1" != --resume ] || resume=$2
	shift
done
read -r _ # a request that needs no answer
read -r prompt
dir=$CLAUDE_CONFIG_DIR/projects/$(pwd -P | sed 's/[^A-Za-z0-9]/-/g')
id=${resume:-conversation-$$-$RANDOM$RANDOM}
if [ -n "$resume" ] && ! [ -e "$dir/$id.jsonl" ]; then
	echo "No conversation found with session ID: $id" >&2
	exit 1
fi
mkdir -p "$dir"
echo task >>"$dir/$id.jsonl"
case $prompt in *"could not be restored"*) told=', told of the new conversation' ;; esac
echo '{"type":"system","subtype":"init","session_id":"'$id'"}'
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Well."}]},"session_id":"'$id'"}'
echo '{"type":"result","subtype":"success","result":"task '$(($(wc -l <"$dir/$id.jsonl")))$told'","num_turns":1,"session_id":"'$id'"}'
`
