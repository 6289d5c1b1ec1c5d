package coder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// FindToken returns a function that returns the session token. The token comes from the file if file is not empty, else
// from the environment variable CODER_SESSION_TOKEN, else from Coder's own login (`coder login`) in CODER_CONFIG_DIR or
// below home. The function reads the file at each call, so that a new token in the file takes effect at
// once.
func FindToken(getenv func(string) string, home, file string) func(context.Context) (string, error) {
	if file == "" {
		if token := strings.TrimSpace(getenv("CODER_SESSION_TOKEN")); token != "" {
			return func(context.Context) (string, error) { return token, nil }
		}
		file = filepath.Join(loginDir(getenv, home), "session")
	}
	return func(context.Context) (string, error) {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("there is no Coder session token: set CODER_SESSION_TOKEN, coder.token_file, or log in with `coder login` (%s cannot be read)", file)
		}
		token := strings.TrimSpace(string(b))
		if token == "" {
			return "", fmt.Errorf("there is no Coder session token: %s is empty", file)
		}
		return token, nil
	}
}

// RenewTokenHint returns a text that tells people what to do if Coder does not accept the token that FindToken finds with the same
// arguments.
func RenewTokenHint(getenv func(string) string, home, file string) string {
	switch {
	case file != "":
		return "write a valid token to " + file + " (coder.token_file), which the server reads again at once"
	case strings.TrimSpace(getenv("CODER_SESSION_TOKEN")) != "":
		return "set CODER_SESSION_TOKEN to a valid token, and start the server again"
	}
	return "log in with `coder login` as the server's user (" + filepath.Join(loginDir(getenv, home), "session") + ")"
}

// FindURL returns the URL of the Coder deployment from the environment variable CODER_URL, else from Coder's own login.
// It returns "" if there is neither.
func FindURL(getenv func(string) string, home string) string {
	if u := strings.TrimSpace(getenv("CODER_URL")); u != "" {
		return u
	}
	b, err := os.ReadFile(filepath.Join(loginDir(getenv, home), "url"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// loginDir returns the directory of Coder's own login.
func loginDir(getenv func(string) string, home string) string {
	if dir := getenv("CODER_CONFIG_DIR"); dir != "" {
		return dir
	}
	switch {
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "coderv2")
	case getenv("XDG_CONFIG_HOME") != "":
		return filepath.Join(getenv("XDG_CONFIG_HOME"), "coderv2")
	}
	return filepath.Join(home, ".config", "coderv2")
}
