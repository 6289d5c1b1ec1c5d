package driver

import (
	"path/filepath"
	"regexp"
	"strings"
)

// ConversationStoreDriver is a driver whose program stores its conversations outside its working directory.
type ConversationStoreDriver interface {
	// Conversations returns where a program with this environment and working directory stores its conversations: a
	// directory root, and a path below root. Both are empty if the location is unknown.
	Conversations(environ []string, dir string) (root, path string)
}

// ConversationFileDriver is a driver whose program stores each conversation in its own file.
type ConversationFileDriver interface {
	// ConversationPattern returns a path/filepath pattern for the file in which a program with this environment and working
	// directory stores a conversation. ConversationIDPlaceholder stands for the conversation's id. The pattern is empty if
	// the path is unknown.
	ConversationPattern(environ []string, dir string) string
}

// ConversationIDPlaceholder is in a result of ConversationPattern in place of the id of a conversation.
const ConversationIDPlaceholder = "{id}"

// ConversationDriver is a driver whose program continues the agent's conversation in the next task. Its method only marks the driver.
type ConversationDriver interface{ ContinuesConversation() }

// ContinuesConversation implements ConversationDriver.
func (c claudeCode) ContinuesConversation() {}

// ContinuesConversation implements ConversationDriver.
func (c codex) ContinuesConversation() {}

// ContinuesConversation implements ConversationDriver.
func (a acpDriver) ContinuesConversation() {}

// ConversationPattern implements ConversationFileDriver.
func (c claudeCode) ConversationPattern(environ []string, dir string) string {
	root, path := c.Conversations(environ, dir)
	if path == "" {
		return ""
	}
	return LiteralPattern(root) + "/" + path + "/" + ConversationIDPlaceholder + ".jsonl"
}

// ConversationPattern implements ConversationFileDriver. The last three directories are the year, month and day when the conversation
// started.
func (c codex) ConversationPattern(environ []string, _ string) string {
	root := lookUpVariable(environ, "CODEX_HOME")
	if home := lookUpVariable(environ, "HOME"); root == "" && home != "" {
		root = filepath.Join(home, ".codex")
	}
	if !filepath.IsAbs(root) {
		return ""
	}
	return LiteralPattern(root) + "/sessions/[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9]/rollout-*-" + ConversationIDPlaceholder + ".jsonl*"
}

var globSpecialPattern = regexp.MustCompile(`[*?\[\\]`)

// LiteralPattern returns a path/filepath pattern that matches only the path.
func LiteralPattern(path string) string { return globSpecialPattern.ReplaceAllString(path, `\$0`) }

// lookUpVariable returns the value of the variable, or an empty text if it is not set.
func lookUpVariable(environ []string, name string) (value string) {
	for _, v := range environ { // the last of several values counts
		if key, val, ok := strings.Cut(v, "="); ok && key == name {
			value = val
		}
	}
	return value
}

var sessionIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// SessionPattern returns the pattern for the file of one session. pattern is a result of ConversationPattern, and session is the stored
// form of a conversation. The result is empty if pattern is empty or the session has no valid id.
func SessionPattern(pattern, session string) string {
	id := parseConversation(session).id
	if pattern == "" || !sessionIDPattern.MatchString(id) {
		return ""
	}
	return strings.ReplaceAll(pattern, ConversationIDPlaceholder, id)
}

// maxProjectName is the maximum length of a project directory's name. Claude Code replaces the end of a longer name by
// a hash.
const maxProjectName = 200

var unsafeProjectPattern = regexp.MustCompile(`[^A-Za-z0-9]`)

// Conversations implements ConversationStoreDriver. Claude Code stores conversations in projects/NAME in its configuration
// directory, where NAME is derived from the working directory.
func (c claudeCode) Conversations(environ []string, dir string) (root, path string) {
	root = lookUpVariable(environ, "CLAUDE_CONFIG_DIR")
	if home := lookUpVariable(environ, "HOME"); root == "" && home != "" {
		root = filepath.Join(home, ".claude")
	}
	project := unsafeProjectPattern.ReplaceAllString(dir, "-")
	if !filepath.IsAbs(root) || len(project) > maxProjectName {
		return "", ""
	}
	return root, filepath.Join("projects", project)
}
