package app

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres/pgtest"
)

// oldProgramEnv is the environment variable with the path of a program of an earlier commit.
const oldProgramEnv = "FLEET_TEST_OLD"

// TestOldProgram checks that a program of an earlier commit can work with a database that this program has upgraded,
// and that this program can continue afterwards. If the newest migration excludes older programs, the old program must
// refuse to work.
func TestOldProgram(t *testing.T) {
	t.Parallel()
	old := os.Getenv(oldProgramEnv)
	if old == "" {
		t.Skip("`make test-upgrade` builds a program of an earlier commit, and runs this")
	}
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			env := []string{"FLEET_DATA=" + data, "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
			statements := []string{ // these act like a newer migration that is compatible with older programs
				`ALTER TABLE tasks ADD COLUMN of_the_future text`,
				`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`,
			}
			driver, source := "sqlite", filepath.Join(data, "fleet.db")
			if store == "postgres" {
				driver, source = "pgx", pgtest.EmptyURL(t)
				env = append(env, "FLEET_STORE="+source)
			}
			runNew := func(args ...string) string {
				code, stdout, stderr := runCommand(t.Context(), env, args...)
				require.Zero(t, code, stderr)
				return stdout
			}
			runOld := func(args ...string) string {
				cmd := exec.CommandContext(t.Context(), old, args...)
				cmd.Env = env
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				require.NoError(t, err, stderr.String())
				return string(out)
			}
			runNew("migrate", "up")
			db, err := sql.Open(driver, source)
			require.NoError(t, err)
			for _, s := range statements {
				_, err := db.ExecContext(t.Context(), s)
				require.NoError(t, err)
			}
			var oldest int
			require.NoError(t, db.QueryRowContext(t.Context(), `SELECT oldest FROM compatibility`).Scan(&oldest))
			require.NoError(t, db.Close())
			migrations, err := filepath.Glob(filepath.Join("..", "store", "sqlite", "migrations", "*.sql"))
			require.NoError(t, err)
			if oldest == len(migrations) { // the newest migration excludes older programs
				cmd := exec.CommandContext(t.Context(), old, "agent", "list", "--embedded")
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				require.Error(t, err)
				require.Contains(t, string(out), fmt.Sprintf("needs a Fleet that supports at least version %d", oldest))
				require.Contains(t, string(out), "use a newer Fleet")
				return
			}
			runOld("agent", "create", "papi", "--project", "shell", "--spec", "x", "--embedded")
			require.Contains(t, runOld("task", "run", "papi", "echo from the old one", "--follow", "--embedded"), "from the old one")
			require.Contains(t, runNew("agent", "list", "--embedded"), "papi")
			require.Contains(t, runNew("task", "list", "--embedded"), "from the old one")
		})
	}
}
