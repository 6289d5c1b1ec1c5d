//go:build unix

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"fleet/internal/runner/filetree"
	"fleet/internal/runner/gitfiles"
)

// Limits of the helper while it does an operation.
const (
	operationMemory      = 1 << 30 // in bytes
	operationDescriptors = 64
	operationCPU         = 10 * time.Minute // computing time; the digests of large files take long
	quickTimeout         = time.Minute      // for an operation that usually takes milliseconds
	maxResult            = 4 << 20          // size of the JSON form of a result, in bytes
	maxLargeResult       = 64 << 20         // the same for a result with an entry for each file
)

// operations are the helper's operations on files that an agent wrote, by name. Each gets its arguments as JSON.
var operations = map[string]func(arguments []byte) (any, error){
	"remove-contents":   operation(func(dir string) (noResult, error) { return noResult{}, filetree.RemoveContents(dir) }),
	"hide-repositories": operation(func(dir string) (noResult, error) { return noResult{}, filetree.HideRepositories(dir) }),
	"show-repositories": operation(func(dir string) (noResult, error) { return noResult{}, filetree.ShowRepositories(dir) }),
	"examine":           operation(filetree.Examine),
	"find":              operation(filetree.Find),
	"write-home-files":  operation(filetree.WriteHomeFiles),

	"shrink": operation(filetree.Shrink),

	"read-git":   operation(gitfiles.Read),
	"copy-index": operation(func(c gitfiles.IndexCopy) (noResult, error) { return noResult{}, gitfiles.CopyIndex(c) }),
	"sizes":      operation(gitfiles.Sizes),
	"repair-git": operation(gitfiles.Repair),
	"copy-lfs":   operation(func(c gitfiles.LFSCopy) (noResult, error) { return noResult{}, gitfiles.CopyLFS(c) }),
}

// noResult is the result of an operation without a result.
type noResult struct{}

// operation converts do for the map operations.
func operation[A, R any](do func(A) (R, error)) func([]byte) (any, error) {
	return func(arguments []byte) (any, error) {
		var a A
		if err := json.Unmarshal(arguments, &a); err != nil {
			return nil, err
		}
		return do(a)
	}
}

// helperResult is the JSON object that the helper writes to its standard output. Failure is nil if the operation succeeded.
type helperResult struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *failure        `json:"failed,omitempty"`
}

// failure is an error of an operation.
type failure struct {
	Message string        `json:"message"`
	Op      string        `json:"op,omitempty"`   // of an fs.PathError
	Path    string        `json:"path,omitempty"` // of an fs.PathError
	Errno   syscall.Errno `json:"errno,omitempty"`
}

func (f failure) err() error {
	switch {
	case f.Errno != 0 && f.Path != "":
		return &fs.PathError{Op: f.Op, Path: f.Path, Err: f.Errno}
	case f.Errno != 0:
		return fmt.Errorf("%s: %w", f.Message, f.Errno)
	}
	return errors.New(f.Message)
}

// runOperation runs the operation with the name. It reads the arguments from in, and writes a helperResult to out.
func runOperation(name string, in io.Reader, out io.Writer) error {
	do := operations[name]
	if do == nil {
		return fmt.Errorf("the operation %q is unknown", name)
	}
	arguments, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	result, err := do(arguments)
	var h helperResult
	if err != nil {
		h.Failure = &failure{Message: err.Error()}
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			h.Failure.Op, h.Failure.Path = pe.Op, pe.Path
		}
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			h.Failure.Errno = errno
		}
	} else if h.Result, err = json.Marshal(result); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(h)
}

// access lists the paths that an operation may access, and its limits.
type access struct {
	write, read []string
	override    bool   // see Policy.Override
	maxResult   int    // maximum size of the result, in bytes; 0 means the constant maxResult
	fileSize    uint64 // maximum size of a file that the operation writes, in bytes; 0: it writes no file
}

// runConfined runs an operation in the helper on files that an agent wrote. So the agent's links, and the depth and size of the
// agent's directories, cannot affect this process. If the system cannot confine programs, this process runs the operation itself.
func runConfined[R any](ctx context.Context, name string, arguments any, a access) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	in, err := json.Marshal(arguments)
	if err != nil {
		return result, err
	}
	out := limitedBuffer{limit: a.maxResult}
	if out.limit == 0 {
		out.limit = maxResult
	}
	if Available() == nil {
		err = runHelper(ctx, name, in, &out, a)
	} else {
		err = runOperation(name, bytes.NewReader(in), &out)
	}
	if err != nil {
		return result, err
	}
	var h helperResult
	if err := json.Unmarshal(out.Bytes(), &h); err != nil {
		return result, err
	}
	if h.Failure != nil {
		return result, h.Failure.err()
	}
	return result, json.Unmarshal(h.Result, &result)
}

func runHelper(ctx context.Context, name string, in []byte, out *limitedBuffer, a access) error {
	data, err := json.Marshal(helperRequest{
		Policy: Policy{
			Write: a.write, Read: a.read, Override: a.override, Network: Offline,
			Limits: Limits{Memory: operationMemory, Descriptors: operationDescriptors, CPU: operationCPU, FileSize: a.fileSize},
		},
		Operation: name, Report: noDescriptor, Proxy: noDescriptor,
	})
	if err != nil {
		return err
	}
	stderr := limitedBuffer{limit: maxResult}
	cmd := exec.CommandContext(ctx, helperPath())
	cmd.Args = []string{helperName, string(data), name}
	cmd.Env = []string{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, &stderr
	endWithThread(cmd) // an operation that survives its server would disturb the next server
	runtime.LockOSThread()
	err = cmd.Run()
	runtime.UnlockOSThread()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && stderr.Len() > 0:
		return errors.New(strings.TrimSpace(stderr.String()))
	}
	return err
}

// limitedBuffer is a buffer whose Write fails if the buffer would have more than limit bytes.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.limit {
		return 0, errors.New("the result is too long")
	}
	return l.Buffer.Write(p)
}
