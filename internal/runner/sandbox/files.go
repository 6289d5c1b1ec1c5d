//go:build unix

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"fleet/internal/runner/filetree"
)

// operation is something that the helper does with a directory that an agent wrote.
type operation string

const (
	empty operation = "empty"
	look  operation = "look"
	hide  operation = "hide"
	show  operation = "show"
)

// Limits of the helper while it does an operation.
const (
	fileMemory      = 1 << 30
	fileDescriptors = 64
	maxSurvey       = 1 << 20 // size of the JSON form of a survey, in bytes
)

// run does the operation and writes its result.
func (o operation) run(dir string, result io.Writer) error {
	switch o {
	case empty:
		return filetree.Empty(dir)
	case hide:
		return filetree.Hide(dir)
	case show:
		return filetree.Show(dir)
	case look:
		s, err := filetree.Look(dir)
		if err != nil {
			return err
		}
		return json.NewEncoder(result).Encode(s)
	}
	return fmt.Errorf("the operation %q is unknown", o)
}

// Empty removes everything in a directory that an agent wrote. A confined process does it, so the agent's links and the depth
// and size of the directory cannot affect the server.
func Empty(ctx context.Context, dir string) error {
	_, err := onDirectory(ctx, empty, dir)
	return err
}

// Look examines a directory that an agent wrote, like Empty in a confined process.
func Look(ctx context.Context, dir string) (s filetree.Survey, err error) {
	text, err := onDirectory(ctx, look, dir)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// Hide makes git recognise no repository in a directory that an agent wrote; see filetree.Hide.
func Hide(ctx context.Context, dir string) error {
	_, err := onDirectory(ctx, hide, dir)
	return err
}

// Show reverts Hide.
func Show(ctx context.Context, dir string) error {
	_, err := onDirectory(ctx, show, dir)
	return err
}

// onDirectory lets the helper do the operation and returns its result. The parent of the directory belongs to Fleet, and the
// directory itself may be anything that an agent has put there. Where the system cannot confine programs, this process does
// the operation.
func onDirectory(ctx context.Context, op operation, dir string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(parent, filepath.Base(dir))
	var out, problem limited
	if Available() != nil {
		err := op.run(dir, &out)
		return out.Bytes(), err
	}
	data, err := json.Marshal(order{
		Policy:    Policy{Write: []string{dir}, Network: Offline, Limits: Limits{Memory: fileMemory, Descriptors: fileDescriptors}},
		Operation: op, Dir: dir, Report: noReport, Proxy: noReport,
	})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, helperPath())
	cmd.Args = []string{helperName, string(data), string(op)}
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = &out, &problem
	endWithThread(cmd) // an operation that survives its server would disturb the next server
	runtime.LockOSThread()
	err = cmd.Run()
	runtime.UnlockOSThread()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && problem.Len() > 0:
		return nil, errors.New(strings.TrimSpace(problem.String()))
	}
	return out.Bytes(), err
}

// limited keeps at most maxSurvey bytes.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxSurvey {
		return 0, errors.New("the result is too long")
	}
	return l.Buffer.Write(p)
}
