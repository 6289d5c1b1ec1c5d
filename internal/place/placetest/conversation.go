package placetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// FakeClaude is a program that writes output and conversation files like Claude Code.
type FakeClaude struct {
	Program string // path of the program, for the driver claude
	Config  string // value for CLAUDE_CONFIG_DIR, a directory that the program must be able to write
}

// NewFakeClaude creates a program for Prompts.Converses. It exists until the test ends.
func NewFakeClaude(t *testing.T) FakeClaude {
	t.Helper()
	dir := t.TempDir()
	k := FakeClaude{Program: filepath.Join(dir, "bin", "claude"), Config: filepath.Join(dir, "config")}
	for _, d := range []string{filepath.Dir(k.Program), k.Config} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	require.NoError(t, os.WriteFile(k.Program, []byte(fakeClaudeSource), 0o700))
	return k
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

// conversation checks that an agent's tasks share one conversation. If the conversation is lost, a new one must start,
// and the run must report that.
func conversation(x *fixture) {
	p := x.harness.Prompts.Converses
	if p.Text == "" {
		x.Skip("the place has no agent that keeps a conversation")
	}
	in := func(name string, a fleet.Agent, continues bool, want string, lost bool) {
		x.Helper()
		r := x.run(p)
		r.Continues, r.Conversation = continues, name
		x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
		outputs, o := x.followWhole(a, r)
		x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
		x.Equal(want, o.Summary)
		x.True(o.Conversation, "the next run must continue the conversation")
		why := ""
		for _, out := range outputs {
			if out.ConversationLost != "" {
				x.Empty(why, "the lost conversation must be reported only once")
				why = out.ConversationLost
				x.True(out.Step)
				x.Contains(out.Text, "a new conversation starts")
			}
		}
		x.Equal(lost, why != "", "why the conversation was lost: %q", why)
	}
	talk := func(a fleet.Agent, continues bool, want string, lost bool) {
		x.Helper()
		in("", a, continues, want, lost)
	}
	const anew = "task 1, told of the new conversation"
	a := x.readyAgentIn(p.Project)
	talk(a, false, "task 1", false)
	talk(a, true, "task 2", false)
	x.harness.Forget(x.T) // as if the workspace's home was recreated
	talk(a, true, anew, true)
	talk(a, true, "task 2", false)

	// The same is true for a new workspace.
	b := x.readyAgentIn(p.Project)
	talk(b, true, anew, true)
	talk(b, true, "task 2", false)
	talk(a, true, "task 3", false)

	// A run with a name has a separate conversation, which other runs do not affect.
	in("side", a, false, "task 1", false)
	talk(a, true, "task 4", false)
	in("other", a, false, "task 1", false)
	in("side", a, true, "task 2", false)
}
