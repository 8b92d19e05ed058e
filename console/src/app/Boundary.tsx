import { PageSection } from '@patternfly/react-core';
import { Component, type ErrorInfo, type ReactNode } from 'react';
import { Failure } from '@/ui/States';

/** A page that fails leaves the frame and the other pages usable. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidCatch(error: Error, info: ErrorInfo) {
    console.error(error, info.componentStack);
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <PageSection>
        <Failure
          error={this.state.error}
          retry={() => {
            location.reload();
          }}
        />
      </PageSection>
    );
  }
}
