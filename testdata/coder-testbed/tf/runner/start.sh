# shellcheck shell=bash
# Prepares the workspace: its agent works in a clone of a repository with one commit.
if [ ! -d "$HOME/work/.git" ]; then
  git init -q --bare "$HOME/origin.git"
  git clone -q "$HOME/origin.git" "$HOME/work" 2>/dev/null
  git -C "$HOME/work" -c user.name=Test -c user.email=test@example.com commit -q --allow-empty -m "Begin"
  git -C "$HOME/work" push -q origin HEAD
fi
