package unprivileged

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// maxNamespaces is the file that limits how many user namespaces can exist below the namespace of the process that reads it.
const maxNamespaces = "/proc/sys/user/max_user_namespaces"

// RerunWithoutNamespaces is like Rerun, but the new process cannot create user namespaces either. In a process that is not
// root, it returns false if the process cannot create user namespaces, and otherwise skips the test.
func RerunWithoutNamespaces(t *testing.T) bool {
	t.Helper()
	if text, err := os.ReadFile(maxNamespaces); err == nil && string(text) == "0\n" && os.Geteuid() != 0 {
		return false
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process that cannot create user namespaces")
	}
	onlyNobody := []syscall.SysProcIDMap{{ContainerID: nobody, HostID: nobody, Size: 1}}
	rerunWith(t, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: onlyNobody, GidMappings: onlyNobody, Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true},
		AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
	}, "sh", "-c", `echo 0 >`+maxNamespaces+` && exec "$@"`, "sh")
	return true
}
