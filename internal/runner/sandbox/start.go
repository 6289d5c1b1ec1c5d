package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// helperName is the name under which this executable runs as the helper.
const helperName = "fleet-confine"

// helperRequest is the first argument of the helper, as JSON.
type helperRequest struct {
	Policy  Policy `json:"policy"`
	Program string `json:"program"` // the executed file
	Report  int    `json:"report"`  // file descriptor for the reason why the program did not start; noDescriptor means stderr
	Proxy   int    `json:"proxy"`   // file descriptor over which the proxy gets its socket; noDescriptor means no proxy

	// Operation names the operation that the helper does instead of executing a program: see operations.
	Operation string `json:"operation,omitempty"`
}

// noDescriptor stands for a file descriptor that the helper does not get.
const noDescriptor = -1

// Confine changes a command so that the policy confines its program. The command must not be started yet. If the
// program cannot be started, the command fails with exit code 127 and writes the reason to its standard error.
func Confine(cmd *exec.Cmd, p Policy) error {
	if err := errors.Join(Available(), cmd.Err); err != nil {
		return err
	}
	if p.Network.Kind() == allowPrefix {
		return errors.New("start a program whose network is a list of addresses with Start: Confine cannot start its proxy")
	}
	data, err := json.Marshal(helperRequest{Policy: p, Program: cmd.Path, Report: noDescriptor, Proxy: noDescriptor})
	if err != nil {
		return err
	}
	cmd.Path, cmd.Args = helperPath(), append([]string{helperName, string(data)}, cmd.Args...)
	return nil
}

// Start starts a program like os.StartProcess, confined by the policy, and returns when the program runs. The process
// is a child of the thread that calls Start. If the policy's network is a result of Allow, the proxy is another child.
// The proxy ends by a signal or when that thread ends, and the caller must wait for it.
func Start(p Policy, program string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	attrCopy := *attr
	attrCopy.Files = append(append([]*os.File{}, attr.Files...), w)
	req := helperRequest{Policy: p, Program: program, Report: len(attr.Files), Proxy: noDescriptor}
	if p.Network.Kind() == allowPrefix {
		addNetworkNamespace(&attrCopy)
		if addresses := p.Network.Allowed(); len(addresses) > 0 {
			proxy, err := startProxy(addresses, attr)
			if err != nil {
				return nil, errors.Join(err, w.Close())
			}
			defer func() { _ = proxy.Close() }()
			req.Proxy, attrCopy.Files = len(attrCopy.Files), append(attrCopy.Files, proxy)
		}
	}
	data, err := json.Marshal(req)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	child, err := os.StartProcess(helperPath(), append([]string{helperName, string(data)}, argv...), &attrCopy)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	reason, err := io.ReadAll(r) // returns when the helper executes the program or exits
	if err == nil && len(reason) == 0 {
		return child, nil
	}
	_ = child.Kill()
	_, _ = child.Wait()
	if err != nil {
		return nil, err
	}
	return nil, &os.PathError{Op: "start confined", Path: program, Err: errors.New(string(reason))}
}

// helperMain is the main function of the helper. It confines its thread and executes the program, or does the operation. If there is
// a program, it returns only on failure.
func helperMain(args []string) error {
	if len(args) < 2 {
		return errors.New("this command is the sandbox helper, which is internal to Fleet: do not start it yourself")
	}
	var req helperRequest
	if err := json.Unmarshal([]byte(args[0]), &req); err != nil {
		return err
	}
	if req.Report != noDescriptor {
		syscall.CloseOnExec(req.Report)
	}
	err := connectProxy(req.Policy, req.Proxy)
	if err == nil {
		err = confine(req.Policy)
	}
	if err == nil && req.Operation != "" {
		return runOperation(req.Operation, os.Stdin, os.Stdout)
	}
	if err == nil {
		err = syscall.Exec(req.Program, args[1:], os.Environ())
	}
	if req.Report != noDescriptor {
		_, _ = fmt.Fprint(os.NewFile(uintptr(req.Report), "report"), err)
	}
	return err
}
