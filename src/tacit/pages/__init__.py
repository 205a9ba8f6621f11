"""Pages that need nothing but themselves: templates, styles and scripts, and the policy that allows exactly those."""
