package local

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/runner"
)

// keyVariables lists, for each program, environment variables that give the program access to its model. One of them is
// enough. A * at the end matches any suffix. The first variable is the usual one.
var keyVariables = map[string][]string{
	"claude": {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_*"},
	"codex":  {"OPENAI_API_KEY", "CODEX_API_KEY", "AZURE_OPENAI_API_KEY", "OPENAI_BASE_URL"},
	"gemini": {"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_GENAI_USE_*"},
}

// MissingKey returns the name of the variable that the project's program usually needs to reach its model. It returns "" if
// the program gets such a variable, if the server's user has logged in, if Fleet does not know the program, or if the project is
// invalid. environ is the environment of the server, and passEnv is Config.PassEnv.
func MissingKey(proj Project, environ, passEnv []string) string {
	d, err := proj.newDriver()
	if err != nil {
		return ""
	}
	name := filepath.Base(d.Program())
	variables := keyVariables[name]
	if len(variables) == 0 {
		return ""
	}
	env := runner.PickVariables(environ, d.Keys(), passEnv, proj.PassEnv)
	maps.Copy(env, proj.Env)
	for variable, value := range env {
		if value != "" && slices.ContainsFunc(variables, func(w string) bool {
			prefix, isPrefix := strings.CutSuffix(w, "*")
			return variable == w || isPrefix && strings.HasPrefix(variable, prefix)
		}) {
			return ""
		}
	}
	userHome := runner.PickVariables(environ, []string{"HOME"})["HOME"]
	for _, file := range loginFiles[name] {
		if _, err := os.Stat(filepath.Join(userHome, file)); userHome != "" && err == nil {
			return ""
		}
	}
	return variables[0]
}
