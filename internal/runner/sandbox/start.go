package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// helperName is the name under which this executable is started as the helper.
const helperName = "fleet-confine"

// order is what the helper is told, as its first argument.
type order struct {
	Policy  Policy `json:"policy"`
	Program string `json:"program"` // the file that is executed
	Report  int    `json:"report"`  // file descriptor to which it writes why the program was not started
}

// Start starts a program as os.StartProcess does, confined by the policy, and returns when the program runs. The process
// is a child of the thread that calls Start.
func Start(p Policy, program string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	told, err := json.Marshal(order{Policy: p, Program: program, Report: len(attr.Files)})
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	with := *attr
	with.Files = append(append([]*os.File{}, attr.Files...), w)
	// The link names this executable even if another one was installed at its path.
	child, err := os.StartProcess("/proc/self/exe", append([]string{helperName, string(told)}, argv...), &with)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	why, err := io.ReadAll(r) // ends when the helper becomes the program, or ends
	if err == nil && len(why) == 0 {
		return child, nil
	}
	_ = child.Kill()
	_, _ = child.Wait()
	if err != nil {
		return nil, err
	}
	return nil, &os.PathError{Op: "start confined", Path: program, Err: errors.New(string(why))}
}

// helper is the helper's main function: it confines its thread and executes the program. It returns only if it cannot.
func helper(args []string) error {
	if len(args) < 2 {
		return errors.New("the helper of the sandbox is started by Fleet, not by people")
	}
	var o order
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	syscall.CloseOnExec(o.Report)
	report := os.NewFile(uintptr(o.Report), "report")
	err := confine(o.Policy)
	if err == nil {
		err = syscall.Exec(o.Program, args[1:], os.Environ())
	}
	_, _ = fmt.Fprint(report, err)
	return err
}
