package placetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// Talker is a program that speaks as Claude Code does and keeps its conversations where Claude Code does.
type Talker struct {
	Program string // to be started by the driver claude
	Config  string // directory that the variable CLAUDE_CONFIG_DIR is to name, and that the program may write
}

// NewTalker returns a program for Prompts.Talks.
func NewTalker(t *testing.T) Talker {
	t.Helper()
	dir := t.TempDir()
	k := Talker{Program: filepath.Join(dir, "bin", "claude"), Config: filepath.Join(dir, "config")}
	for _, d := range []string{filepath.Dir(k.Program), k.Config} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	require.NoError(t, os.WriteFile(k.Program, []byte(talker), 0o700))
	return k
}

// Forget removes all conversations.
func (k Talker) Forget(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(k.Config, "projects")))
}

// talker says how many tasks its conversation has by now.
const talker = `#!/usr/bin/env bash
while [ $# -gt 0 ]; do
	[ "$1" != --resume ] || resume=$2
	[ "$1" != -- ] || prompt=$2
	shift
done
dir=$CLAUDE_CONFIG_DIR/projects/$(pwd -P | sed 's/[^A-Za-z0-9]/-/g')
id=${resume:-conversation-$$}
if [ -n "$resume" ] && ! [ -e "$dir/$id.jsonl" ]; then
	echo "No conversation found with session ID: $id" >&2
	exit 1
fi
mkdir -p "$dir"
echo task >>"$dir/$id.jsonl"
case $prompt in *"could not be restored"*) told=', told that it begins anew' ;; esac
echo '{"type":"system","subtype":"init","session_id":"'$id'"}'
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Well."}]},"session_id":"'$id'"}'
echo '{"type":"result","subtype":"success","result":"task '$(($(wc -l <"$dir/$id.jsonl")))$told'","num_turns":1,"session_id":"'$id'"}'
`

// conversation holds that an agent's tasks are one conversation, and that a conversation that is lost begins anew and
// says so.
func conversation(x *bench) {
	p := x.h.Prompts.Talks
	if p.Text == "" {
		x.Skip("the backend has no agent that keeps a conversation")
	}
	talk := func(a fleet.Agent, continues bool, want string, lost bool) {
		x.Helper()
		r := x.run(p)
		r.Continues = continues
		x.NoError(x.b.Connect(a).Dispatch(x.ctx, r))
		outputs, o := x.whole(a, r)
		x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
		x.Equal(want, o.Summary)
		x.True(o.Conversation, "its next run goes on with the conversation")
		why := ""
		for _, out := range outputs {
			if out.ConversationLost != "" {
				x.Empty(why, "it is told once")
				why = out.ConversationLost
				x.True(out.Step)
				x.Contains(out.Text, "the conversation begins anew")
			}
		}
		x.Equal(lost, why != "", "why the conversation was lost: %q", why)
	}
	const anew = "task 1, told that it begins anew"
	a := x.readyIn(p.Project)
	talk(a, false, "task 1", false)
	talk(a, true, "task 2", false)
	x.h.Forget(x.T) // as when the workspace's home is made anew
	talk(a, true, anew, true)
	talk(a, true, "task 2", false)

	// One whose workspace was made anew as a whole knows no more than that.
	b := x.readyIn(p.Project)
	talk(b, true, anew, true)
	talk(b, true, "task 2", false)
	talk(a, true, "task 3", false)
}
