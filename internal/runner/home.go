package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/shim"
)

// Home is the directory of an agent. It holds these files about the agent's runs:
//
//	runs/    a directory for each run, see package shim
//	active   the name of the run or check that was started last
//	session  the conversation that the agent's next run continues; session-NAME if the run names its conversation
//	record   the path of the file in which the agent's program keeps that conversation, if the path is known; record-NAME likewise
//	log      a line for each run that was started or has ended
type Home string

// maxFile is the size limit, in bytes, for reading a file of an agent's directory.
const maxFile = 1 << 20

// Make creates the directory and the files that a Host needs in it. It does not change existing files.
func (h Home) Make() error {
	err := os.MkdirAll(h.path("runs"), 0o700)
	if err != nil {
		return err
	}
	log, err := agentfile.OpenAppend(h.path("log"))
	if err != nil {
		return err
	}
	return log.Close()
}

func (h Home) path(parts ...string) string {
	return filepath.Join(append([]string{string(h)}, parts...)...)
}

func (h Home) run(taskID string) shim.Run { return shim.Run(h.path("runs", FileName(taskID))) }

func (h Home) exists() bool {
	info, err := os.Stat(string(h))
	return err == nil && info.IsDir()
}

// readText returns the content of a small file of the agent, without surrounding space. It returns an empty text if the
// file cannot be read.
func (h Home) readText(name string) string {
	b, _ := agentfile.Read(h.path(name), maxFile)
	return strings.TrimSpace(string(b))
}

func (h Home) log(format string, args ...any) {
	shim.AppendLog(h.path("log"), fmt.Sprintf(format, args...))
}

const maxPlainName = 128 // in bytes

var plainNamePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// FileName returns a file name for the id: the id itself if it has 1 to 128 letters, digits, ".", "_" and "-" and
// does not begin with "." or "-", and otherwise its hash.
func FileName(id string) string {
	if len(id) <= maxPlainName && plainNamePattern.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "_" + hex.EncodeToString(sum[:16])
}
