"""Outputs that the study's authors published after editing or retrieval, as runs."""
